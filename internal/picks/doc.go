// Package picks chooses what a claim grants: picks(lane) of the protocol. Every
// store reads candidates and writes rows; what is chosen among the candidates,
// and how many of them are read, is decided here, so that the choice that the
// simulator attacks is the one that ships.
//
// A store works in this order. [Picker.Search] says how many rows to read of
// each lane and from where. The store hands them to [Search.Take] and
// [Search.TakeHead]. [Search.Again] names lanes to read a second time, from the
// beginning. [Picker.Choose] takes what there is room for. The store hands what
// stands behind the chosen heads to [Tails.Offer], and [Tails.Grant] puts the
// picks into their lanes. [Hints.Note] remembers where the search ended.
//
// [NewBatch] and [Compare] do the same for Publish: which ids stand twice, which
// handlers an event adds, and what the result is.
package picks
