package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
)

const flagYes = "yes"

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: flagYes, Aliases: []string{"y"}, Usage: "do it without asking"}
}

// confirm asks before something that cannot be taken back.
func (a *app) confirm(ctx context.Context, c *cli.Command, question string) error {
	switch {
	case c.Bool(flagYes):
		return nil
	case !a.asks:
		return badInput("%s Nobody is there to answer: say --yes to do it", question)
	}
	fmt.Fprint(a.err, question+" Type yes to do it: ")
	answer := make(chan string, 1)
	go func() { // reading cannot be interrupted; waiting for it can
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return fmt.Errorf("nothing was done: %w", ctx.Err())
	case text := <-answer:
		if text == "yes" {
			return nil
		}
	}
	return badInput("nothing was done")
}
