package linearize

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/anishathalye/porcupine"
)

// ErrNothingToDraw is returned by [WriteHTML] when every property holds or is
// unknown.
var ErrNothingToDraw = errors.New("linearize: nothing is illegal, so there is nothing to draw")

// WriteHTML writes a picture of a partition that is illegal: its shortest
// impossible prefix, each call as a bar with its answer, the orders that come
// closest, and the state after each call of them. It draws the first illegal
// property of the report, as one page without references to other files.
func WriteHTML(w io.Writer, r Report) error {
	for i := range r.Results {
		if p := &r.Results[i]; p.failing != nil {
			model, info := p.failing.picture()
			info.AddAnnotations(notes(p.Explanation))
			return porcupine.Visualize(model, info, w)
		}
	}
	return ErrNothingToDraw
}

// notes puts the explanation above the bars.
func notes(e *Explanation) []porcupine.Annotation {
	list := []porcupine.Annotation{{
		Tag: "verdict", Description: fmt.Sprintf("%s is broken in %s", e.Property, e.Partition), Details: e.String(),
		BackgroundColor: "#ffd7d7",
	}}
	for _, m := range e.Misfits {
		list = append(list, porcupine.Annotation{Tag: "does not fit", Description: m.Call, Details: fmt.Sprint(m.Reasons)})
	}
	return list
}

// picture lays the shortest impossible prefix out: a client that had several
// calls outstanding gets a row for each.
func (m *machine[S, P]) picture() (porcupine.Model, porcupine.LinearizationInfo) {
	parts := m.shortest(explainTime)
	list := operations(parts)
	end := int64(0)
	for _, p := range parts {
		end = max(end, p.call)
		if p.ret != forever {
			end = max(end, p.ret)
		}
	}
	for i := range list {
		list[i].Return = min(list[i].Return, end+1)
	}
	layOut(list)
	model, _ := m.model()
	_, info := porcupine.CheckOperationsVerbose(model, list, explainTime)
	return model, info
}

// layOut numbers the rows of the picture: those of one client stand together.
func layOut(list []porcupine.Operation) {
	type row struct{ client, slot int }
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[a].Call, list[b].Call) })
	busy := map[int][]int64{} // per client: until when each of its rows is taken
	rows := make([]row, len(list))
	for _, i := range order {
		o := &list[i]
		slot := slices.IndexFunc(busy[o.ClientId], func(until int64) bool { return until < o.Call })
		if slot < 0 {
			slot = len(busy[o.ClientId])
			busy[o.ClientId] = append(busy[o.ClientId], 0)
		}
		busy[o.ClientId][slot] = o.Return
		rows[i] = row{o.ClientId, slot}
	}
	compare := func(a, b row) int { return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.slot, b.slot)) }
	all := slices.Compact(slices.SortedFunc(slices.Values(rows), compare))
	for i := range list {
		list[i].ClientId, _ = slices.BinarySearchFunc(all, rows[i], compare)
	}
}
