package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v3"

	"github.com/relaybus-go/relaybus/store/postgres"
)

func versionCommand(a *app) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version of this command and of the schema that it works with",
		Action: noArguments(func(_ context.Context, c *cli.Command) error {
			v := struct {
				Version  string `json:"version"`
				Revision string `json:"revision,omitempty"`
				Go       string `json:"go"`
				Schema   int64  `json:"schema_version"`
			}{"unknown", "", runtime.Version(), postgres.Latest()}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Version, v.Revision = info.Main.Version, revision(info)
			}
			if c.Bool(flagJSON) {
				return a.printJSON(v)
			}
			t := newTable(a.out)
			t.row("relaybus", v.Version)
			t.row("revision", v.Revision)
			t.row("go", v.Go)
			t.row("schema version", v.Schema)
			return t.Flush()
		}),
	}
}

func revision(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
