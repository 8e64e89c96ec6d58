package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
)

const flagYes = "yes"

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: flagYes, Aliases: []string{"y"}, Usage: "do it without asking"}
}

// confirm asks before something that cannot be taken back.
func (a *app) confirm(c *cli.Command, question string) error {
	switch {
	case c.Bool(flagYes):
		return nil
	case !a.asks:
		return badInput("%s Nobody is there to answer: say --yes to do it", question)
	}
	fmt.Fprint(a.err, question+" Type yes to do it: ")
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return badInput("nothing was done")
	}
	return nil
}
