// Command toolong measures how soon a client learns that its prompt does not fit into a model of
// Ollama: requests of 200,000 tokens to a model of 32,768, from clients of four APIs in turns. Each
// must get the error of its own API, and Ollama no request for an answer. The same bytes to a server
// that only reads them show what of the time is their way through the machine.
//
//	go run ./bench/toolong              # a table
//	go run ./bench/toolong -check       # the exit code is 1 if the limit is exceeded
//	go run ./bench/toolong -program F   # measure a perigee that is built already
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

const (
	maxTime = 50 * time.Millisecond // for the slowest call
	tokens  = 200_000
	window  = 32_768
	model   = "qwen2.5-coder:7b" // of the simulator; its window is the one above
)

// A form is a request of an API, and the error that its clients know.
type form struct {
	name, path, body string
	expected         []string // parts of the error; %d is the window
}

var forms = []form{
	{"Chat", "/v1/chat/completions", `{"model":"` + model + `","stream":true,"messages":[{"role":"user","content":%s}]}`,
		[]string{`"code":"context_length_exceeded"`, "This model's maximum context length is %d tokens"}},
	{"Responses", "/v1/responses", `{"model":"` + model + `","stream":true,"input":[{"role":"user","content":%s}]}`,
		[]string{`"code":"context_length_exceeded"`, "This model's maximum context length is %d tokens"}},
	{"Messages", "/v1/messages", `{"model":"` + model + `","stream":true,"max_tokens":1000,"messages":[{"role":"user","content":%s}]}`,
		[]string{`"type":"invalid_request_error"`, "prompt is too long: ", " tokens > %d maximum"}},
	{"Gemini", "/v1beta/models/" + model + ":streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":%s}]}]}`,
		[]string{`"status":"INVALID_ARGUMENT"`, "exceeds the maximum number of tokens allowed (%d)"}},
}

// prompt is source code of about so many tokens of four bytes.
func prompt() string {
	const line = "if err != nil {\n\treturn nil, fmt.Errorf(\"read: %w\", err)\n}\n"
	text, err := json.Marshal(strings.Repeat(line, tokens*4/len(line)+1))
	if err != nil {
		panic(err) // it is text
	}
	return string(text)
}

func main() {
	check := flag.Bool("check", false, "exit with 1 if the limit is exceeded")
	rounds := flag.Int("rounds", 50, "calls of each API")
	program := flag.String("program", "", "the perigee to measure; empty builds it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kept, err := measure(ctx, *program, max(*rounds, 1))
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolong:", err)
	}
	if err != nil || *check && !kept {
		stop()
		os.Exit(1)
	}
}

// measure prints the table, and reports whether the limit was kept. The first call of each API is
// one of a daemon that has not asked Ollama for the model yet.
func measure(ctx context.Context, program string, rounds int) (kept bool, err error) {
	r, err := start(ctx, program)
	if err != nil {
		return false, err
	}
	defer r.close()
	reader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer reader.Close()
	text := prompt()
	times, reads := make([][]time.Duration, len(forms)), make([][]time.Duration, len(forms))
	var size int
	for range rounds {
		for i, f := range forms {
			body := fmt.Appendf(nil, f.body, text)
			size = len(body)
			_, read, err := call(ctx, reader.URL+f.path, body)
			if err != nil {
				return false, err
			}
			answer, took, err := call(ctx, r.url+f.path, body)
			if err != nil {
				return false, err
			}
			for _, part := range f.expected {
				if strings.Contains(part, "%d") {
					part = fmt.Sprintf(part, window)
				}
				if !strings.Contains(answer, part) {
					return false, fmt.Errorf("%s: %s instead of %q", f.name, answer, part)
				}
			}
			times[i], reads[i] = append(times[i], took), append(reads[i], read)
		}
	}
	asked, looked, err := r.asked(ctx)
	if err != nil {
		return false, err
	}
	kept = asked == 0
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "client\tcalls\tp50\tp95\tslowest\treading the body p50\ttimes that\t")
	for i, f := range forms {
		slices.Sort(times[i])
		slices.Sort(reads[i])
		half, read, slowest := times[i][rounds/2], reads[i][rounds/2], times[i][rounds-1]
		fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\t%s\t%.1f\t\n", f.name, rounds, ms(half), ms(times[i][rounds*95/100]), ms(slowest), ms(read), float64(half)/float64(read))
		kept = kept && slowest <= maxTime
	}
	if err := out.Flush(); err != nil {
		return false, err
	}
	fmt.Printf("%d bytes, %d tokens, to a model of %d; requests to Ollama: %d for answers, %d to look at the model\n", size, tokens, window, asked, looked)
	fmt.Printf("limit: %s for the slowest, and no request for an answer: %t\n", maxTime, kept)
	return kept, nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

// call sends a request that is refused with 400, and returns the answer and the time until all of it
// has come.
func call(ctx context.Context, url string, body []byte) (answer string, took time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	took = time.Since(began)
	if err == nil && resp.StatusCode != http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", resp.Status, raw[:min(len(raw), 1000)])
	}
	return string(raw), took, err
}
