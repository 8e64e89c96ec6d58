package mutant

import "sort"

var declared []Info // filled by package initialisation only

// Declare lists planted bugs. Packages call it from the initialisation of a
// file that is built with the mutants only, so that an ordinary build holds
// neither the bugs nor their names.
func Declare(infos ...Info) { declared = append(declared, infos...) }

// All returns every declared bug, sorted by name.
func All() []Info {
	all := append([]Info(nil), declared...)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}
