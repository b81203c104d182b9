// Go's own server and SQLite, with a commit for each create, or with one for all that wait.

package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"

	"github.com/mattn/go-sqlite3"
)

const (
	insertSQL  = "INSERT INTO plants (id, name, tag) VALUES (?, ?, ?)"
	waitingMax = 10_000
	batchMax   = 1_000
)

type newPlant struct {
	ID   *int64  `json:"id"`
	Name *string `json:"name"`
	Tag  *string `json:"tag"`
}

type plant struct {
	Name *string `json:"name"`
	Tag  *string `json:"tag,omitempty"`
}

type failure struct {
	Message string `json:"error"`
}

// create is a plant that waits for its commit.
type create struct {
	newPlant
	done chan error
}

func main() {
	path, port, token, mode := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	database, err := sql.Open("sqlite3", path+"?_journal_mode=WAL&_synchronous=FULL")
	if err != nil {
		log.Fatal(err)
	}
	database.SetMaxOpenConns(1)
	_, err = database.Exec(
		"CREATE TABLE IF NOT EXISTS plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)")
	if err != nil {
		log.Fatal(err)
	}
	insert, err := database.Prepare(insertSQL)
	if err != nil {
		log.Fatal(err)
	}
	store := func(p newPlant) error {
		_, err := insert.Exec(p.ID, p.Name, p.Tag)
		return err
	}
	if mode == "group" {
		store = storeInGroups(database, insert)
	}
	http.HandleFunc("/plants", func(w http.ResponseWriter, r *http.Request) {
		status, answer := handle(r, token, store)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}

func handle(r *http.Request, token string, store func(newPlant) error) (int, any) {
	if r.Header.Get("Authorization") != "Bearer "+token {
		return http.StatusUnauthorized, failure{"unauthorized"}
	}
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, failure{"method not allowed"}
	}
	var p newPlant
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || p.ID == nil || p.Name == nil {
		return http.StatusBadRequest, failure{"not a plant"}
	}
	var refused sqlite3.Error
	if err := store(p); errors.As(err, &refused) && refused.Code == sqlite3.ErrConstraint {
		return http.StatusConflict, failure{"id is stored already"}
	} else if err != nil {
		return http.StatusServiceUnavailable, failure{err.Error()}
	}
	return http.StatusOK, plant{p.Name, p.Tag}
}

// storeInGroups starts the writer, and returns the function that waits for it.
func storeInGroups(database *sql.DB, insert *sql.Stmt) func(newPlant) error {
	waiting := make(chan create, waitingMax)
	go func() {
		for first := range waiting {
			batch := []create{first}
			for more := true; more && len(batch) < batchMax; {
				select {
				case next := <-waiting:
					batch = append(batch, next)
				default:
					more = false
				}
			}
			commit(database, insert, batch)
		}
	}()
	return func(p newPlant) error {
		c := create{p, make(chan error, 1)}
		waiting <- c
		return <-c.done
	}
}

// commit stores a batch in one transaction. A refused plant does not affect the others.
func commit(database *sql.DB, insert *sql.Stmt, batch []create) {
	results := make([]error, len(batch))
	transaction, err := database.Begin()
	if err == nil {
		statement := transaction.Stmt(insert)
		for i, c := range batch {
			_, results[i] = statement.Exec(c.ID, c.Name, c.Tag)
		}
		err = transaction.Commit()
	}
	for i, c := range batch {
		if err != nil {
			results[i] = err
		}
		c.done <- results[i]
	}
}
