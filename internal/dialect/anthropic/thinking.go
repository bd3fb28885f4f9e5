package anthropic

import (
	"slices"
	"strconv"

	"perigee"
	"perigee/internal/dialect"
	"perigee/internal/lib/rawjson"
)

// thinking is the member of that name, until all other members are read.
type thinking struct {
	kind   string
	budget *int64
}

func (d *decoder) readThinking(c *rawjson.Cursor) {
	d.display = DisplayFull
	ignored := func() {} // thinking of another conversation is not checked for
	c.Read(dialect.RestPresent(c, &d.notes, "thinking."), "type", &d.thinking.kind, "budget_tokens", &d.thinking.budget,
		"block_binding", ignored, "display", func() {
			switch display := c.Bytes(); string(display) {
			case "omitted":
				d.display = DisplayOmitted
			case "summarized":
			default:
				d.notes.Mapped("thinking.display")
			}
		})
}

func (d *decoder) outputConfig(c *rawjson.Cursor) {
	c.Read(dialect.RestPresent(c, &d.notes, "output_config."), "effort", func() {
		if d.effort = c.String(); !slices.Contains(efforts, d.effort) && c.Err() == nil {
			d.fail(invalid("output_config.effort: want low, medium, high, xhigh or max, found " +
				strconv.Quote(fieldName([]byte(d.effort)))))
		}
	}, "format", func() { d.outputFormat(c, "output_config.format") })
}

// outputFormat reads the schema that the answer must follow.
func (d *decoder) outputFormat(c *rawjson.Cursor, where string) {
	var kind string
	g := &d.prompt.Generation
	for key := range c.Object() {
		switch string(key) {
		case "type":
			if kind = c.String(); kind != "json_schema" {
				d.notes.Unknown(where+" ", []byte(kind))
			}
		case "schema":
			if c.Kind() == rawjson.Null {
				continue
			}
			g.ResponseMIME, g.ResponseJSON = "application/json", c.Raw()
		default:
			d.notes.Unknown(where+".", key)
		}
	}
	if kind == "json_schema" && g.ResponseJSON == nil && c.Err() == nil {
		d.fail(invalid(where + ".schema: Field required"))
	}
}

// efforts are the levels of thinking that this API has.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// dynamic is the budget that leaves it to the model how much it thinks.
const dynamic = -1

// finishThinking brings thinking and effort together. A budget and a level exclude each other at
// the provider: the budget is the more exact of the two.
func (d *decoder) finishThinking() {
	t := &perigee.Thinking{Include: new(true)}
	switch kind := d.thinking.kind; {
	case kind == "" && d.effort == "":
		return // the model's own habit
	case kind == "":
		t.Include = nil
		d.level(t)
	case kind == "disabled":
		d.display = DisplayNone
		t.Include, t.Budget = new(false), new(int64(0))
	case kind == "enabled" && d.thinking.budget != nil:
		t.Budget = d.thinking.budget
	default:
		if kind != "adaptive" && kind != "enabled" {
			d.notes.Mapped("thinking.type " + fieldName([]byte(kind)) + " to adaptive")
		}
		d.level(t)
	}
	if d.effort != "" && t.Level == "" {
		d.notes.Dropped("output_config.effort")
	}
	d.prompt.Generation.Thinking = t
}

// level sets how much to think from the effort that was asked for, and leaves it to the model when
// none was.
func (d *decoder) level(t *perigee.Thinking) {
	if d.effort == "" {
		t.Budget = new(int64(dynamic))
		return
	}
	t.Level = d.effort
}
