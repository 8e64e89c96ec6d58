package mutant

import "sort"

// Filled by package initialisation only. The bugs of the driver are apart: the
// simulator does not run the code that they are planted in.
var declared, driver []Info

// Declare lists planted bugs. Packages call it from the initialisation of a
// file that is built with the mutants only, so that an ordinary build holds
// neither the bugs nor their names.
func Declare(infos ...Info) { declared = append(declared, infos...) }

// DeclareDriver is Declare for bugs in what drives a Machine with goroutines and
// timers, which the rounds of internal/drive must catch.
func DeclareDriver(infos ...Info) { driver = append(driver, infos...) }

// Driver returns every declared bug of the driver, in the order of declaration.
func Driver() []Info { return append([]Info(nil), driver...) }

// All returns every declared bug of what is simulated, sorted by name.
func All() []Info {
	all := append([]Info(nil), declared...)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}
