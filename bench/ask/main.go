// Command ask measures what an ask adds to the language server's own time. The stand-in language
// server and the simulator that is its cloud are processes of their own. Pairs are measured in
// turns: a message whose conversation is read from the stream of updates alone, until the server
// says that it is idle, and the same message as an ask.
//
//	go run ./bench/ask              # a table
//	go run ./bench/ask -check       # the exit code is 1 if the limit is exceeded
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"perigee/internal/simulator/standin"
)

// maxAdded is what an ask may add at p50.
const maxAdded = 20 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 2 && os.Args[1] == "simulate" && os.Args[2] == "langserver" {
		code := standin.Main(ctx, standin.Command{Args: os.Args[3:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv})
		stop()
		os.Exit(code)
	}
	if len(os.Args) == 2 && os.Args[1] == "cloud" {
		if err := serveCloud(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "ask:", err)
			os.Exit(1)
		}
		return
	}
	check := flag.Bool("check", false, "exit with 1 if the limit is exceeded")
	pairs := flag.Int("pairs", 100, "pairs of each case")
	flag.Parse()
	kept, err := measure(ctx, max(*pairs, 1))
	if err != nil {
		fmt.Fprintln(os.Stderr, "ask:", err)
	}
	if err != nil || *check && !kept {
		stop()
		os.Exit(1)
	}
}

var cases = []struct{ name, text, prompt string }{
	{"a short answer", "Done.", "[[text: Done.]]"},
	{"10 pieces, 20 ms apart", "", "[[tokens: 200]] [[chunks: 10]] [[pace: 20ms]]"},
	{"with a tool", "Read.", `[[call: list_dir {"DirectoryPath":".","toolAction":"list","toolSummary":"files"}]] [[then]] [[text: Read.]]`},
}

// measure prints the table, and reports whether the limit was kept.
func measure(ctx context.Context, pairs int) (kept bool, err error) {
	w, err := start(ctx)
	if err != nil {
		return false, err
	}
	defer w.close()
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "case\tpairs\tserver p50\task p50\tadded p50\tadded p95\tlast text to answer p50\t")
	kept = true
	for _, c := range cases {
		var server, whole, added, rest []time.Duration
		for i := range pairs + 5 {
			direct, err := w.direct(ctx, c.prompt)
			if err != nil {
				return false, fmt.Errorf("%s, directly: %w", c.name, err)
			}
			asked, last, err := w.ask(ctx, c.prompt, c.text)
			if err != nil {
				return false, fmt.Errorf("%s, as an ask: %w", c.name, err)
			}
			if i < 5 {
				continue // connections, caches and the list of models
			}
			server, whole, added, rest = append(server, direct), append(whole, asked), append(added, asked-direct), append(rest, last)
		}
		fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t\n", c.name, pairs, at(server, 50), at(whole, 50), at(added, 50), at(added, 95), at(rest, 50))
		kept = kept && percentile(added, 50) <= maxAdded
	}
	if err := out.Flush(); err != nil {
		return false, err
	}
	fmt.Printf("limit: %s added at p50: %t\n", maxAdded, kept)
	return kept, nil
}

func percentile(list []time.Duration, p int) time.Duration {
	list = slices.SortedFunc(slices.Values(list), cmp.Compare[time.Duration])
	return list[min(len(list)*p/100, len(list)-1)]
}

func at(list []time.Duration, p int) string {
	return fmt.Sprintf("%.1f ms", float64(percentile(list, p))/float64(time.Millisecond))
}
