package prepare

import (
	"perigee"
)

// withoutTools is for models that draw: they call nothing.
func withoutTools(p *perigee.Prompt, notes *notes) {
	if len(p.Tools) > 0 {
		notes.add(perigee.NoteDropped, "tools")
	}
	p.Tools, p.ToolConfig = nil, nil
	withoutJSON(&p.Generation, "for an image model", notes)
}

// declareOnce returns the tools with each function once and under the name that the provider knows, and how many
// functions there are. Tools of the provider's own stay where they are.
func declareOnce(tools []perigee.Tool, names *names, notes *notes) (once []perigee.Tool, functions int) {
	seen := make(map[string]bool, len(tools))
	change := false
	for i := range tools {
		f := tools[i].Function
		if f == nil {
			continue
		}
		if f.Name == "" || seen[f.Name] || names.wire(f.Name) != f.Name {
			change = true
		}
		if f.Name != "" && !seen[f.Name] {
			functions++
		}
		seen[f.Name] = true
	}
	if !change {
		return tools, functions
	}
	clear(seen)
	once = make([]perigee.Tool, 0, len(tools))
	for _, tool := range tools {
		if f := tool.Function; f != nil {
			switch {
			case f.Name == "":
				notes.add(perigee.NoteDropped, "tool without a name")
				continue
			case seen[f.Name]:
				notes.add(perigee.NoteDropped, "second declaration of tool "+clip(f.Name))
				continue
			}
			seen[f.Name] = true
			if wire := names.wire(f.Name); wire != f.Name {
				renamed := *f
				renamed.Name = wire
				tool.Function = &renamed
			}
		}
		once = append(once, tool)
	}
	return once, functions
}

func isBuiltin(t perigee.Tool) bool { return t.Function == nil }
