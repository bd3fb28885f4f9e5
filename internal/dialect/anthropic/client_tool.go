package anthropic

import (
	"fmt"
	"strings"
)

// Claude is trained on these tools, so a request has only their type. Other models need their
// schemas. The schemas are the documented inputs; the descriptions are perigee's.

const bashSchema = `{"type":"object","properties":{` +
	`"command":{"type":"string","description":"The command to run. Required unless the shell is restarted."},` +
	`"restart":{"type":"boolean","description":"True to start a new shell."}}}`

const editorSchema = `{"type":"object","properties":{` +
	`"command":{"type":"string","enum":[%s],"description":"What to do."},` +
	`"path":{"type":"string","description":"Absolute path of the file or directory."},` +
	`"file_text":{"type":"string","description":"For create: the content of the new file."},` +
	`"old_str":{"type":"string","description":"For str_replace: the text to replace, which must occur exactly once."},` +
	`"new_str":{"type":"string","description":"For str_replace: the new text."},` +
	`"insert_line":{"type":"integer","description":"For insert: the line after which to insert; 0 is the beginning."},` +
	`"insert_text":{"type":"string","description":"For insert: the text to insert."},` +
	`"view_range":{"type":"array","items":{"type":"integer"},"description":"For view: first and last line; -1 is the end."}},` +
	`"required":["command","path"]}`

const memorySchema = `{"type":"object","properties":{` +
	`"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"],"description":"What to do."},` +
	`"path":{"type":"string","description":"Path below /memories, for all commands but rename."},` +
	`"view_range":{"type":"array","items":{"type":"integer"},"description":"For view: first and last line."},` +
	`"file_text":{"type":"string","description":"For create: the content of the file."},` +
	`"old_str":{"type":"string","description":"For str_replace: the text to replace."},` +
	`"new_str":{"type":"string","description":"For str_replace: the new text."},` +
	`"insert_line":{"type":"integer","description":"For insert: the line after which to insert."},` +
	`"insert_text":{"type":"string","description":"For insert: the text to insert."},` +
	`"old_path":{"type":"string","description":"For rename: the path now."},` +
	`"new_path":{"type":"string","description":"For rename: the path afterwards."}},` +
	`"required":["command"]}`

const computerSchema = `{"type":"object","properties":{` +
	`"action":{"type":"string","enum":["key","hold_key","type","cursor_position","mouse_move","left_mouse_down",` +
	`"left_mouse_up","left_click","left_click_drag","right_click","middle_click","double_click",` +
	`"triple_click","scroll","wait","screenshot","zoom"],"description":"What to do."},` +
	`"coordinate":{"type":"array","items":{"type":"integer"},` +
	`"description":"x and y in pixels from the upper left corner, for actions of the mouse."},` +
	`"start_coordinate":{"type":"array","items":{"type":"integer"},"description":"For left_click_drag: where it begins."},` +
	`"text":{"type":"string","description":"For type and key: what to type, or the key, such as Return or ctrl+s."},` +
	`"scroll_direction":{"type":"string","enum":["up","down","left","right"],"description":"For scroll."},` +
	`"scroll_amount":{"type":"integer","description":"For scroll: how many clicks of the wheel."},` +
	`"duration":{"type":"number","description":"For wait and hold_key: seconds."},` +
	`"region":{"type":"array","items":{"type":"integer"},"description":"For zoom: left, top, right and bottom."}},` +
	`"required":["action"]}`

// clientTool returns the schema and a description of a tool that the client runs and the request
// only names; "" for other tools.
func clientTool(t *declaration) (schema, description string) {
	switch kind := t.kind; {
	case strings.HasPrefix(kind, "bash_"):
		return bashSchema, "Run commands in a bash shell that keeps its state from call to call."
	case strings.HasPrefix(kind, "text_editor_"):
		commands := `"view","create","str_replace","insert"`
		if kind == "text_editor_20241022" || kind == "text_editor_20250124" {
			commands += `,"undo_edit"`
		}
		return fmt.Sprintf(editorSchema, commands), "View, create and edit text files."
	case strings.HasPrefix(kind, "memory_"):
		return memorySchema, "Keep notes in files below /memories, which outlast the conversation. Look there before you begin."
	case strings.HasPrefix(kind, "computer_") && t.width > 0:
		return computerSchema, fmt.Sprintf("Use the mouse and the keyboard of a computer, and take screenshots. "+
			"The screen has %d by %d pixels.", t.width, t.height)
	}
	return "", ""
}
