package model

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// This file finds models in the local cache of Hugging Face, where huggingface_hub and the engines put them:
//
//	models--ORG--NAME/refs/main              the name of a snapshot
//	models--ORG--NAME/snapshots/*/           a folder for each revision, of links to blobs/
//
// Nothing is downloaded.

// isID reports whether a name has the form of an id of Hugging Face, ORG/NAME.
func isID(name string) bool {
	org, rest, ok := strings.Cut(name, "/")
	return ok && rest != "" && !strings.Contains(rest, "/") && strings.Trim(org, ".") != ""
}

// hubID is a name as an argument of hf download.
func hubID(name string) string {
	if isID(name) {
		return name
	}
	return "ORG/NAME"
}

// hubCache is the folder of the cache, "" where nothing says it: as huggingface_hub has it, older names of variables
// included.
func hubCache() string {
	fromEnv := func(name string) string { return expand(os.Getenv(name)) }
	if folder := cmp.Or(fromEnv("HF_HUB_CACHE"), fromEnv("HUGGINGFACE_HUB_CACHE")); folder != "" {
		return folder
	}
	home := fromEnv("HF_HOME")
	if home == "" {
		caches := cmp.Or(fromEnv("XDG_CACHE_HOME"), expand("~/.cache"))
		if caches == "" {
			return ""
		}
		home = filepath.Join(caches, "huggingface")
	}
	return filepath.Join(home, "hub")
}

// expand replaces ~ and variables in a path; "" where ~ stands for nothing.
func expand(path string) string {
	path = os.ExpandEnv(path)
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && rest[0] != '/' {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home + rest
}

// cached finds the folder of an id that holds its config.json. Small and capital letters are alike, since they are on
// Hugging Face.
func cached(id string) (folder string, ok bool) {
	hub := hubCache()
	if hub == "" || !isID(id) {
		return "", false
	}
	repo := "models--" + strings.ReplaceAll(id, "/", "--")
	if folder, ok := snapshot(filepath.Join(hub, repo)); ok {
		return folder, true
	}
	entries, _ := os.ReadDir(hub) // what cannot be read holds no model for us
	for _, e := range entries {
		if e.Name() != repo && strings.EqualFold(e.Name(), repo) {
			return snapshot(filepath.Join(hub, e.Name()))
		}
	}
	return "", false
}

// snapshot is the one of refs/main, or else the newest, that has a config.json. Repositories of GGUF files have none.
func snapshot(repo string) (folder string, ok bool) {
	has := func(folder string) bool {
		_, err := os.Lstat(filepath.Join(folder, configName)) // its reader names a broken link
		return err == nil
	}
	all := filepath.Join(repo, "snapshots")
	if ref, err := os.ReadFile(filepath.Join(repo, "refs", "main")); err == nil {
		if main := filepath.Join(all, strings.TrimSpace(string(ref))); has(main) {
			return main, true
		}
	}
	entries, _ := os.ReadDir(all)
	var newest time.Time
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && has(filepath.Join(all, e.Name())) && (!ok || info.ModTime().After(newest)) {
			folder, newest, ok = filepath.Join(all, e.Name()), info.ModTime(), true
		}
	}
	return folder, ok
}
