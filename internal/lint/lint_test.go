package lint

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var write = flag.Bool("write", false, "write the pages that are made from the source")

// TestTree runs every rule over the checkout.
func TestTree(t *testing.T) {
	tree, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.packages[protocolDir].Files) == 0 {
		t.Fatal("engine/protocol not found: is this the repository?")
	}
	if *write {
		if err := os.WriteFile(filepath.Join("../..", ProbePage), []byte(ProbeCatalogue(tree)), 0o666); err != nil {
			t.Fatal(err)
		}
		if tree, err = Load("../.."); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range Rules {
		t.Run(rule.Name, func(t *testing.T) {
			if rule.Asleep != nil {
				if why := rule.Asleep(tree); why != "" {
					t.Logf("nothing to compare: %s", why)
					return
				}
			}
			for _, problem := range rule.Check(tree) {
				t.Error(problem)
			}
		})
	}
}
