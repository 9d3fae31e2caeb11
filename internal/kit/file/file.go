// Package file reads the files that users name, and writes files and folders whole or not at all.
//
// What is written has no name, or a temporary one beside its destination, until all of it is on the disk; then one
// rename puts it in place. An error, a full disk or a killed process leaves the destination as it was. A killed process
// leaves an unfinished folder behind, and on NFS a file: its name is a dot, the destination's name and [TempMark].
//
// All files and folders obey the umask.
package file

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens a file for reading. It may be a pipe or a device, and "-" is the standard input. A folder is an error.
func Open(path string) (*os.File, error) {
	if path == "-" {
		path = "/dev/stdin"
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, &fs.PathError{Op: "read", Path: path, Err: unix.EISDIR}
	}
	return f, nil
}

// Read reads a file of at most most bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d bytes", most)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

var descriptor = regexp.MustCompile(`^/(?:dev|proc/(self|thread-self|[0-9]+))/fd/([0-9]+)$`)

// Descriptor returns the number of this process's descriptor for which a path stands: "-", /dev/stdin, /dev/fd/63.
func Descriptor(path string) (fd int, ok bool) {
	if path == "-" {
		return 0, true
	}
	path, err := Target(filepath.Clean(path))
	m := descriptor.FindStringSubmatch(path)
	if err != nil || m == nil {
		return 0, false
	}
	fd, err = strconv.Atoi(m[2])
	return fd, err == nil && (m[1] == "" || strings.HasSuffix(m[1], "self") || m[1] == strconv.Itoa(os.Getpid()))
}

// Keep makes what a pipe holds readable more than once, by this process and by those that it starts: the text of a
// descriptor takes the place of the pipe. Of any other path it does nothing.
func Keep(path string) error {
	fd, ok := Descriptor(path)
	if !ok {
		return nil
	}
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().IsRegular() {
		return err
	}
	number, err := unix.MemfdCreate("perigee", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	text := os.NewFile(uintptr(number), path)
	defer text.Close()
	if _, err := io.Copy(text, f); err != nil {
		return err
	}
	if _, err := text.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return unix.Dup3(number, fd, 0)
}

// Target returns the path to which a link leads, which need not be there. It does not follow the kernel's links to open
// files: these have no other path.
func Target(path string) (string, error) {
	const most = 40 // as many as Linux follows
	at := path
	for range most {
		if descriptor.MatchString(at) {
			return at, nil
		}
		text, err := os.Readlink(at)
		if err != nil {
			return at, nil
		}
		if !filepath.IsAbs(text) {
			folder, _ := filepath.Split(at)
			text = folder + text // unclean: the folder may be a link
		}
		at = text
	}
	return "", fmt.Errorf("too many symbolic links")
}

// Folder returns the folder of a file as the kernel finds it, and the current one for the standard input and pipes.
func Folder(path string) string {
	folder, _ := filepath.Split(path)
	if _, ok := Descriptor(path); ok || folder == "" {
		return "."
	}
	if !strings.Contains(folder, "..") {
		return filepath.Clean(folder)
	}
	return folder // a link before ".." would be lost
}

// Beside returns the path of what a file names relative to its folder.
func Beside(file, path string) string {
	folder := Folder(file)
	if folder != "." && strings.Contains(folder+path, "..") {
		return folder + "/" + path
	}
	return filepath.Join(folder, path)
}
