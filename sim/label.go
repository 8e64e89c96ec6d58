package sim

import (
	"github.com/relaybus-go/relaybus/faults"
)

// Label says what a choice decides. Value 0 of every label is the calm choice:
// no fault, the base latency, the first option.
type Label uint16

// concern groups labels that share one random stream, so that a new draw in
// one concern leaves the others as they were.
type concern uint8

const (
	schedule concern = iota // how long things take
	workload                // what is published and when
	handlers                // how handlers behave without a fault
	striking                // faults
	concerns                // how many there are
)

// The labels that are not faults. Faults follow, in the order of faults.All.
const (
	LabelStatement Label = iota
	LabelRequest
	LabelReply
	LabelPriority
	LabelTimer
	LabelJitter
	LabelType
	LabelKey
	LabelDelay
	LabelBatch
	LabelGap
	LabelWork
	LabelOutcome
	LabelWake
	LabelFilter
	LabelAges
	LabelLook
	LabelSurvivor
	firstFault
)

// noun says how an actor is written in a schedule.
type noun uint8

const (
	byWorld    noun = iota // no actor
	byWorker               // worker=N
	byCall                 // worker=N call=NAME
	byClient               // client=N: a worker, publisher or operator
	byBatch                // batch=N of the publishers
	byEvent                // event=N
	byRun                  // event=N handler=M
	byLane                 // lane=N
	byDelivery             // delivery=N
)

type labelInfo struct {
	name    string
	concern concern
	noun    noun
	says    string
}

var labels = buildLabels()

func buildLabels() []labelInfo {
	table := []labelInfo{
		LabelStatement: {"latency.statement", schedule, byClient, "how long a statement of the store takes"},
		LabelRequest:   {"latency.request", schedule, byCall, "how long a request travels"},
		LabelReply:     {"latency.reply", schedule, byCall, "how long a reply travels"},
		LabelPriority:  {"latency.priority", schedule, byClient, "how slow a client is until it changes"},
		LabelTimer:     {"latency.timer", schedule, byWorker, "how late a timer fires"},
		LabelJitter:    {"latency.jitter", schedule, byWorker, "the jitter of polls, retries and backoff"},
		LabelType:      {"publish.type", workload, byEvent, "the type of an event"},
		LabelKey:       {"publish.key", workload, byEvent, "the key of an event"},
		LabelDelay:     {"publish.delay", workload, byEvent, "how long an event is put off"},
		LabelBatch:     {"publish.batch", workload, byBatch, "events in one transaction"},
		LabelGap:       {"publish.gap", workload, byBatch, "the pause before a transaction"},
		LabelWork:      {"handler.work", handlers, byRun, "how long a run of a handler takes"},
		LabelOutcome:   {"handler.outcome", handlers, byRun, "whether a run asks for a snooze, a later retry or an end"},
		LabelWake:      {"publish.wake", workload, byBatch, "which workers are told of a commit"},
		LabelFilter:    {"operator.filter", striking, byWorld, "by what an operator requeues: ids or a filter"},
		LabelAges:      {"operator.ages", striking, byWorld, "which kinds an operator's purge keeps longer"},
		LabelLook:      {"operator.look", workload, byWorld, "whether an operator looks at the store"},
		LabelSurvivor:  {"survivor", striking, byWorker, "who is dead for good in the liveness phase"},
	}
	for _, kind := range faults.All() {
		table = append(table, labelInfo{"fault." + kind.Name, striking, nounOf(kind.Target), kind.Says})
	}
	return table
}

// nounOf maps what a fault strikes to how that is written.
func nounOf(t faults.Target) noun {
	switch t {
	case faults.OnWorker:
		return byWorker
	case faults.OnLane:
		return byLane
	case faults.OnMessage, faults.OnCommit:
		return byCall
	case faults.OnStatement:
		return byClient
	case faults.OnRun, faults.OnDelivery:
		return byRun
	case faults.OnBatch:
		return byBatch
	case faults.OnRow:
		return byDelivery
	default:
		return byWorld
	}
}

// faultLabel is the label of the i-th kind of faults.All.
func faultLabel(i int) Label { return firstFault + Label(i) }

// String returns the label's name in schedules.
func (l Label) String() string {
	if int(l) < len(labels) {
		return labels[l].name
	}
	return "unknown"
}

func labelNamed(name string) (Label, bool) {
	for i := range labels {
		if labels[i].name == name {
			return Label(i), true
		}
	}
	return 0, false
}
