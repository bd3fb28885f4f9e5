package roster

import (
	"slices"
	"testing"
	"time"

	"perigee"
	"perigee/internal/testing/perigeetest/await"
)

func TestChoicesFollowThePool(t *testing.T) {
	d := newRig(t, ada, "bob@example.com", "eve@example.com")
	emails := func() (list []string) {
		for _, c := range d.Choices() {
			list = append(list, c.Email)
		}
		return list
	}
	if got := emails(); !slices.Equal(got, []string{ada, "bob@example.com", "eve@example.com"}) {
		t.Errorf("got %q", got)
	}
	lease := d.lend()
	lease.Done(banned())
	await.Return(t, d.stops.running.Wait, "the stop to be stored")
	got := d.Choices()
	if len(got) != 3 || got[0].Email != "bob@example.com" || !got[0].Usable || got[0].Cooling {
		t.Errorf("got %+v", got)
	}
	last := got[2]
	if last.Email != ada || last.Usable {
		t.Errorf("got %+v", last)
	}
}

func TestCredentialsAreRefreshedAheadOfTheirEnd(t *testing.T) {
	d := newRig(t, ada)
	var s subscriber
	d.feed.Subscribe(s.notify)
	first, err := d.Credential(t.Context(), ada)
	if err != nil {
		t.Fatal(err)
	}
	s.wants(t, 1)
	if left := first.Expiry.Sub(d.now()); first.Email != ada || first.Project != "p" || first.Access.IsZero() || left < 50*time.Minute || left > time.Hour {
		t.Errorf("got %+v, which lasts %v", first, left)
	}
	if ahead := first.Expiry.Sub(first.Renew); ahead < 5*time.Minute || ahead > 6*time.Minute {
		t.Errorf("it is renewed %v before its end", ahead)
	}
	d.passed += first.Renew.Sub(d.now()) + time.Second
	gate := make(chan struct{})
	d.sealer.gate.Store(&gate) // the refresh reads the sign-in
	if same, err := d.Credential(t.Context(), ada); err != nil || same.Access != first.Access {
		t.Errorf("got %+v, %v", same, err)
	}
	await.Receive(t, d.sealer.asked, "the refresh")
	d.sealer.gate.Store(nil)
	close(gate)
	s.wants(t, 2)
	second, err := d.Credential(t.Context(), ada)
	if err != nil || second.Access == first.Access || !second.Expiry.After(first.Expiry) {
		t.Errorf("got %+v, %v", second, err)
	}
	d.find(ada).Refused(first.Access) // an old one
	if same, err := d.Credential(t.Context(), ada); err != nil || same.Access != second.Access {
		t.Errorf("got %+v, %v", same, err)
	}
	d.find(ada).Refused(second.Access)
	if third, err := d.Credential(t.Context(), ada); err != nil || third.Access == second.Access {
		t.Errorf("got %+v, %v", third, err)
	}
	if _, err := d.Credential(t.Context(), "bob@example.com"); err == nil {
		t.Error("there is no such account")
	}
}

// A credential that the provider refuses stops the account, as a call would.
func TestRefusedCredentialStopsTheAccount(t *testing.T) {
	d := newRig(t, ada)
	d.remove(ada)
	d.add(ada, "sim-refresh-unknown/revoked")
	if _, err := d.Credential(t.Context(), ada); perigee.AsError(err).Class != perigee.ClassUnauthenticated {
		t.Errorf("got %v", err)
	}
	if got := d.Choices(); len(got) != 1 || got[0].Usable {
		t.Errorf("got %+v", got)
	}
	for _, email := range []string{"", ada} {
		if err := d.Refusal(email); perigee.AsError(err).Class != perigee.ClassUnauthenticated {
			t.Errorf("got %v", err)
		}
	}
	if err := d.Refusal("bob@example.com"); err != nil {
		t.Errorf("of an account that is not there: %v", err)
	}
}

// A token that is refused outside of a lease is replaced once. If the new one is refused as well,
// the account has a cooldown, and a minute later the next token is asked for.
func TestRefusedTokensAreReplacedOnceAMinute(t *testing.T) {
	d := newRig(t, ada)
	token := func() perigee.Secret {
		t.Helper()
		c, err := d.Credential(t.Context(), ada)
		if err != nil {
			t.Fatal(err)
		}
		return c.Access
	}
	first := token()
	for range 2 { // the second time, there is another token
		if !d.Refused(ada, first) {
			t.Error("the first token stays")
		}
	}
	second := token()
	if c := d.Choices(); second == first || c[0].Refused || c[0].Cooling {
		t.Errorf("%+v, with the same token: %v", c, second == first)
	}
	for range 3 {
		if d.Refused(ada, second) || token() != second {
			t.Error("the second token is replaced as well")
		}
	}
	if c := d.Choices(); !c[0].Refused || !c[0].Cooling || !c[0].Usable {
		t.Errorf("got %+v", c)
	}
	d.passed += time.Minute + time.Second
	if c := d.Choices(); c[0].Refused || c[0].Cooling {
		t.Errorf("after a minute: %+v", c)
	}
	if !d.Refused(ada, second) || token() == second {
		t.Error("the second token stays")
	}
	if !d.Refused("bob@example.com", second) {
		t.Error("the token of an account that is not there stays")
	}
}
