package testdb

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/relaybus-go/relaybus/internal/pgcluster"
)

func TestPrivateServerStopsAndStarts(t *testing.T) {
	if !Wanted(t, "postgres") {
		return
	}
	s := Private(t)
	ask(t, s)
	s.Stop(t)
	if conn, err := pgx.Connect(context.Background(), s.URL); err == nil {
		_ = conn.Close(context.Background())
		t.Error("a stopped server answers")
	}
	s.Start(t)
	ask(t, s)
}

func ask(t *testing.T, s *Server) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		t.Fatalf("%s: %v", s.Says, err)
	}
	defer conn.Close(ctx)
	var version string
	if err := conn.QueryRow(ctx, "select version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", s.Says, version)
}

// TestNoServer: a machine with nothing at all says one sentence that names
// what to do.
func TestNoServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("RELAYBUS_TEST_POSTGRES_NEWEST_URL", "")
	_, err := find(Newest)
	if err == nil {
		t.Fatal("found a server without a PATH")
	}
	for _, want := range []string{"no PostgreSQL for the tests", "RELAYBUS_TEST_POSTGRES_NEWEST_URL", "RELAYBUS_TEST_STORES", "localdb"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func TestNoServerForPrivate(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := startDownloaded(pgcluster.ErrNoBinaries, pgcluster.New)
	if err == nil || !strings.Contains(err.Error(), "PATH") || !strings.Contains(err.Error(), pgcluster.ErrNoBinaries.Error()) {
		t.Errorf("got %v, want a sentence that says what is missing and what to do", err)
	}
}

func TestEnvironmentNamesTheServer(t *testing.T) {
	t.Setenv("RELAYBUS_TEST_POSTGRES_URL", "postgres://here")
	t.Setenv("RELAYBUS_TEST_POSTGRES_NEWEST_URL", "postgres://there")
	for v, want := range map[Version]string{Local: "postgres://here", Newest: "postgres://there"} {
		if s, err := find(v); err != nil || s.URL != want {
			t.Errorf("%s: got %+v, %v, want %s", v, s, err, want)
		}
	}
}

func TestWanted(t *testing.T) {
	for only, want := range map[string]bool{"": true, "postgres": true, "mongo, postgres": true, "mongo": false} {
		t.Setenv("RELAYBUS_TEST_STORES", only)
		if Wanted(t, "postgres") != want {
			t.Errorf("RELAYBUS_TEST_STORES=%q: wanted is not %v", only, want)
		}
	}
}

// TestErrorsOfTheProgram: what internal/localdb says reaches whoever reads the
// test's output.
func TestErrorsOfTheProgram(t *testing.T) {
	if testing.Short() {
		t.Log("left out with -short: building internal/localdb")
		return
	}
	_, err := fromProgram("postgres", "3")
	if err == nil || !strings.Contains(err.Error(), "3") || errors.Is(err, pgcluster.ErrNoBinaries) {
		t.Errorf("got %v, want its complaint about version 3", err)
	}
}
