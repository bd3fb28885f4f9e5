package perigeetest

import (
	"fmt"
	"strings"

	"perigee"
)

// callText writes a recorded call as the lines of a transcript. What is empty is left out, and so
// are times, except that there was a first byte.
func callText(c *perigee.Call) string {
	var b strings.Builder
	line := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "false" {
			b.WriteString(name + ": " + visible([]byte(text)) + "\n")
		}
	}
	line("id", c.ID)
	line("operation", c.Operation)
	line("dialect", c.Dialect)
	line("stream", c.Stream)
	line("client", c.Client.Name)
	line("client_version", c.Client.Version)
	line("key", c.Client.Key)
	line("session", c.Client.Session)
	line("agent", c.Client.Agent)
	line("parent_agent", c.Client.ParentAgent)
	line("model_asked", c.ModelAsked)
	line("model", c.Model)
	line("upstream", c.Upstream)
	line("account", c.Account)
	line("outcome", c.Outcome)
	line("class", c.Class)
	line("status", c.Status)
	line("error", c.Error)
	line("finish", c.Finish)
	line("first_byte", c.FirstByte > 0)
	line("input", c.Usage.Input)
	line("cached", c.Usage.Cached)
	line("written", c.Usage.Written)
	line("written_hour", c.Usage.WrittenHour)
	line("output", c.Usage.Output)
	line("thinking", c.Usage.Thinking)
	if c.Usage.Charged.Known {
		line("charged", c.Usage.Charged)
	}
	line("bytes_in", c.BytesIn)
	for _, note := range c.Notes {
		line("note", note)
	}
	return b.String()
}
