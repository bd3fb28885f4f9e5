package server

import (
	"testing"

	"perigee"
)

func TestMCPErrorBelongsToNoRequest(t *testing.T) {
	got := string(encodeMCPError(perigee.Errorf(perigee.ClassForbidden, `no "key"`).WithHint("add one")))
	if want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no \"key\"; add one","data":{"class":"forbidden"}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
