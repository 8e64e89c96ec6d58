package tlc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

var (
	comments = regexp.MustCompile(`(?s)\(\*.*?\*\)|\\\*[^\n]*`)
	extends  = regexp.MustCompile(`\bEXTENDS\s+(\w+(?:\s*,\s*\w+)*)`)
	instance = regexp.MustCompile(`\bINSTANCE\s+(\w+)`)
	word     = regexp.MustCompile(`\w+`)
)

// Closure returns the paths of a module of a folder and of all modules of that
// folder that it extends or instantiates, sorted by name. Modules that are not
// in the folder are the standard ones.
func Closure(dir, module string) ([]string, error) {
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		file := filepath.Join(dir, name+".tla")
		if seen[file] {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		seen[file] = true
		for _, used := range uses(string(text)) {
			if _, err := os.Stat(filepath.Join(dir, used+".tla")); err != nil {
				continue
			}
			if err := add(used); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(module); err != nil {
		return nil, fmt.Errorf("module %s: %w", module, err)
	}
	var files []string
	for file := range seen {
		files = append(files, file)
	}
	slices.Sort(files)
	return files, nil
}

// uses lists the modules that a module names, whether they exist or not.
func uses(text string) []string {
	text = comments.ReplaceAllString(text, "")
	var names []string
	for _, match := range extends.FindAllStringSubmatch(text, -1) {
		names = append(names, word.FindAllString(match[1], -1)...)
	}
	for _, match := range instance.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// Sum is the sha256 of the files' names and texts, in order, in hexadecimal.
func Sum(files []string) (string, error) {
	h := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(file), len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
