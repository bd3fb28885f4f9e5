package perigee_test

import (
	"reflect"
	"testing"

	"perigee"
)

func TestNotesOfAFailedAttemptAreDropped(t *testing.T) {
	note := func(subject string) perigee.Note { return perigee.Note{Action: perigee.NoteDropped, Subject: subject} }
	var log perigee.CallLog
	log.Note(note("request"))
	log.BeginAttempt()
	log.Note(note("first"))
	if got := log.Notes(); !reflect.DeepEqual(got, []perigee.Note{note("request")}) {
		t.Errorf("during an attempt: %v", got)
	}
	if got := log.AllNotes(); !reflect.DeepEqual(got, []perigee.Note{note("request"), note("first")}) {
		t.Errorf("with tentative ones: %v", got)
	}
	log.EndAttempt(false)
	log.BeginAttempt()
	log.Note(note("second"))
	log.EndAttempt(true)
	log.EndAttempt(false) // it is over
	log.NoteOnce(note("second"))
	log.NoteOnce(note("encoder"))
	want := []perigee.Note{note("request"), note("second"), note("encoder")}
	if got := log.Notes(); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(log.AllNotes(), want) {
		t.Errorf("got %v, want %v", got, want)
	}
	fork := log.Fork()
	fork.Note(note("fork"))
	if len(fork.Notes()) != 4 || len(log.Notes()) != 3 {
		t.Errorf("the fork has %v, the log %v", fork.Notes(), log.Notes())
	}
}

// A request without a log is handled like any other.
func TestANilLogKeepsNothing(t *testing.T) {
	var log *perigee.CallLog
	log.Note(perigee.EstimatedUsage)
	log.NoteOnce(perigee.EstimatedUsage)
	log.BeginAttempt()
	log.EndAttempt(true)
	log.AddAttempt(perigee.Attempt{})
	log.SetStatus(200)
	log.Close()
	if log.Notes() != nil || log.AllNotes() != nil || log.Attempts() != nil || log.Status() != 0 || log.Tap() != nil {
		t.Error("it keeps something")
	}
	var origin perigee.Origin
	origin.Note()
	if origin.Log != nil {
		t.Error("no note made a log")
	}
	origin.Note(perigee.EstimatedUsage)
	if len(origin.Log.Notes()) != 1 {
		t.Errorf("the note is lost: %v", origin.Log.Notes())
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	var log perigee.CallLog
	for range 60 {
		log.AddAttempt(perigee.Attempt{Upstream: "u"})
	}
	if n := len(log.Attempts()); n != 50 {
		t.Errorf("%d attempts are kept", n)
	}
}
