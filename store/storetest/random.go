package storetest

import "testing"

func (h Harness[Tx]) random(t *testing.T) {}
