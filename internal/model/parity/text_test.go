package parity

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

func TestAddress(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			w.Write([]byte("agent_tx_bytes_total 4194304000"))
		case "/broken":
			w.Write([]byte("up 1\nup one\n"))
		case "/large":
			line := []byte(strings.Repeat("#", 1<<20-1) + "\n")
			for range mostText>>20 + 1 {
				w.Write(line)
			}
		case "/slow":
			w.Write([]byte("up"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	for _, address := range []string{server.URL, server.URL + "/", server.URL + "/metrics"} {
		text, err := Read(context.Background(), address)
		must.Do(t, err)
		if r, err := Judge([]Reading{{After: text}}, nil, kept); err != nil || r.Verdict != Once {
			t.Errorf("%s: %+v, %v", address, r, err)
		}
	}
	secret := strings.Replace(server.URL, "http://", "http://me:word@", 1)
	for path, says := range map[string]string{
		"/gone":   "/gone answered 404 Not Found, wanted 200 OK",
		"/broken": `/broken:2: expected float as value, got "one"`,
		"/large":  "/large: the metrics are larger than 67108864 bytes",
		"/slow":   "/slow: no whole answer within 10s",
	} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if path == "/slow" {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
		}
		_, err := Read(ctx, secret+path)
		cancel()
		must.Fail(t, err, fault.Input, says)
		if err != nil && strings.Contains(err.Error(), "word") {
			t.Errorf("the password is in %v", err)
		}
	}
	server.Close()
	_, err := Read(context.Background(), server.URL)
	must.Fail(t, err, fault.Input, "connection refused | is the engine up")
}

func TestUnreadableFiles(t *testing.T) {
	folder := t.TempDir()
	broken, large := filepath.Join(folder, "broken"), filepath.Join(folder, "large")
	must.Do(t, os.WriteFile(broken, []byte("a 1\n\n<html>\n"), 0o644))
	must.Do(t, os.WriteFile(large, nil, 0o644))
	must.Do(t, os.Truncate(large, mostText+1))
	for path, says := range map[string]string{
		broken:                        broken + ":3: invalid metric name: wanted Prometheus' text format",
		large:                         "it is larger than 67108864 bytes",
		folder:                        "is a directory",
		filepath.Join(folder, "gone"): "no such file or directory",
	} {
		_, err := Read(context.Background(), path)
		must.Fail(t, err, fault.Input, says)
	}
}
