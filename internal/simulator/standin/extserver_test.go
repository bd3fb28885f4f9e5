package standin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/langserver/extserver"
	"perigee/internal/simulator"
)

// TestRealExtensionServerWorksForTheAgent lets native tools reach the Extension Server of perigee,
// with and without permission.
func TestRealExtensionServerWorksForTheAgent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the command is for a Unix shell")
	}
	for _, settings := range []string{"", "belief=stream,bare", "generation=classic"} {
		for _, allowed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%v", settings, allowed), func(t *testing.T) {
				t.Parallel()
				workspace := t.TempDir()
				cloud := newCloudRig(t, simulator.Options{})
				e := extserver.New(extserver.Options{Workspace: workspace, AllowEdit: allowed, AllowCommand: allowed})
				check(t, e.Start(t.Context()))
				t.Cleanup(func() { _ = e.Close(context.Background()) })
				e.SetToken(extserver.Token{Access: perigee.NewSecret(cloud.token("ada")), Expiry: time.Now().Add(time.Hour)})
				args := []string{"--csrf_token", testCSRF, "--extension_server_port", strconv.Itoa(e.Port()), "--extension_server_csrf_token", e.CSRF().Reveal(), "--cloud_code_endpoint", cloud.URL}
				if generationOf(settings) == classic {
					args = append(args, "--random_port")
				}
				r := &serverRig{cloud: cloud, settings: settings, args: args}
				r.start(t, t.TempDir())
				r.call("AddTrackedWorkspace", fmt.Sprintf(`{"workspace":%q}`, workspace))

				steps := r.finishes(r.say(`[[call: write_to_file {"TargetFile":"a.txt","CodeContent":"by the agent","toolAction":"a","toolSummary":"s"}]]`), 5)
				text, err := os.ReadFile(filepath.Join(workspace, "a.txt"))
				if allowed && (err != nil || string(text) != "by the agent" || steps[3].status != "DONE") {
					t.Errorf("wrote %q, %v: %v", text, err, steps[3].raw)
				}
				if !allowed && (err == nil || steps[3].status != "ERROR" || !strings.Contains(fmt.Sprint(steps[3].raw), "permission_denied")) {
					t.Errorf("%v: %v", err, steps[3].raw)
				}

				cascade := r.say(`[[call: run_command {"CommandLine":"echo made > b.txt; echo $((40+2)); exit 3","Cwd":"` + workspace + `","toolAction":"a","toolSummary":"s"}]]`)
				index, waiting := r.waits(cascade)
				r.call("HandleCascadeUserInteraction", fmt.Sprintf(`{"cascadeId":%q,"interaction":{"trajectoryId":%q,"stepIndex":%d,"runCommand":{"confirm":true}}}`,
					cascade, dig(waiting.raw, "metadata", "sourceTrajectoryStepInfo", "trajectoryId"), index))
				steps = r.finishes(cascade, index+3)
				output, _ := dig(steps[index].raw, "runCommand", "combinedOutput", "full").(string)
				_, err = os.Stat(filepath.Join(workspace, "b.txt"))
				if allowed && (err != nil || !strings.Contains(output, "42") || dig(steps[index].raw, "runCommand", "exitCode") != 3.0) {
					t.Errorf("ran %v, %v", steps[index].raw, err)
				}
				if !allowed && (err == nil || output != notRun) {
					t.Errorf("ran %v, %v", steps[index].raw, err)
				}
			})
		}
	}
}
