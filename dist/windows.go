package dist

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// WindowsService is the name of the service on Windows.
const WindowsService = "perigee"

func newWindows(h *Host, o Options) (*Manager, error) {
	if !o.System {
		return nil, errors.New("services of one account are not supported on Windows; run it with --system as administrator, or start perigee serve from the Startup folder")
	}
	if h.Data == "" {
		return nil, errors.New("ProgramData is not set; set it to a directory such as C:\\ProgramData")
	}
	dir := h.Data + `\perigee`
	m := &Manager{host: h, unit: WindowsService, logs: `type C:\Windows\ServiceProfiles\perigee\AppData\Local\perigee\service.log`}
	if o.Config == "" {
		o.Config = dir + `\config.yaml`
		m.dirs = []string{dir}
		m.Files = []File{{Path: o.Config, Mode: 0o644, Once: true,
			Content: "# perigee as a service of Windows. Without upstreams, the built-in simulator answers.\n# Changes are applied within seconds.\n"}}
	}
	sc := func(words ...string) []string { return append([]string{"sc.exe"}, words...) }
	command := `"` + o.Program + `" serve --config "` + o.Config + `"`
	settings := []string{"binPath=", command, "start=", "auto", "obj=", `NT SERVICE\perigee`, "DisplayName=", "perigee gateway"}
	m.check = sc("query", "type=", "driver", "bufsize=", "4096")
	m.reach = "run it as administrator"
	m.create = [][]string{append(sc("create", WindowsService), settings...)}
	m.enable = [][]string{
		append(sc("config", WindowsService), settings...),
		sc("description", WindowsService, "A gateway for OpenAI, Anthropic and Gemini clients"),
		sc("failure", WindowsService, "reset=", "86400", "actions=", "restart/1000/restart/5000/restart/60000"),
	}
	m.start = [][]string{sc("start", WindowsService)}
	m.stop = [][]string{{"net.exe", "stop", WindowsService}} // it waits, which sc.exe does not
	m.restart = append(m.stop, sc("start", WindowsService))
	m.disable = [][]string{sc("delete", WindowsService)}
	m.state = func(ctx context.Context) (s State) {
		out, err := h.Run(ctx, sc("queryex", WindowsService)...)
		if err != nil {
			s.Detail = "not installed"
			return s
		}
		s.Installed, s.Enabled = true, true
		settings, err := h.Run(ctx, sc("qc", WindowsService)...)
		s.Outdated = err == nil && found(settings, `BINARY_PATH_NAME\s*:(.+)`) != command
		s.Detail = strings.ToLower(found(out, `STATE\s*:\s*\d+\s+(\w+)`))
		s.PID, _ = strconv.Atoi(found(out, `PID\s*:\s*(\d+)`)) // 0 if it does not run
		s.Running = s.Detail == "running"
		s.Loaded = s.Detail != "stopped"
		return s
	}
	return m, nil
}
