package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestWarningsOfALog(t *testing.T) {
	var written bytes.Buffer
	var kept warnings
	logger := kept.capture(slog.New(slog.NewTextHandler(&written, nil)))
	logger.Info("ready")
	logger.With("upstream", "studio").Warn("account cooled down", "account", "ada@example.com")
	list := kept.list()
	if len(list) != 1 || list[0].Level != "WARN" || list[0].Text != "account cooled down upstream=studio account=ada@example.com" {
		t.Errorf("%+v", list)
	}
	if text := written.String(); !strings.Contains(text, "ready") || !strings.Contains(text, "upstream=studio account=ada@example.com") {
		t.Errorf("written: %s", text)
	}
	logger.Warn("call failed", "call", "01call", "status", 400, "model", "gemini-3-flash", "class", "invalid", "error", "no such field")
	if w := kept.list()[0]; w.Call != "01call" || w.Text != "call failed, invalid, no such field" {
		t.Errorf("%+v", w)
	}
	for i := range 50 {
		logger.Error(fmt.Sprint("failure ", i))
	}
	if list = kept.list(); len(list) != maxWarnings || list[0].Text != "failure 49" {
		t.Errorf("%d warnings, the newest %+v", len(list), list[0])
	}
}
