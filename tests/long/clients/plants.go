// A program on the Go client that openapi-generator makes: plants URL TOKEN
package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strconv"

	openapi "plants/client"
)

const (
	big   = int64(1)<<53 + 1
	csv   = "id,name,tag\n-7,Rosa canina,Rosa\n3,Betula nana,Alba\n"
	lines = "{\"id\":3,\"name\":\"Picea\"}\n{\"id\":4,\"name\":\"Rosa alba\",\"tag\":\"Rosa\"}\n"
)

var client *openapi.APIClient

func with(token string) context.Context {
	return context.WithValue(context.Background(), openapi.ContextAccessToken, token)
}

// Returns a result; an error ends the program.
func must[T any](result T, _ *http.Response, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

// Returns the status and the number of an error.
func refusal[T any](_ T, response *http.Response, err error) []int32 {
	record := err.(*openapi.GenericOpenAPIError).Model().(openapi.Error)
	return []int32{int32(response.StatusCode), record.Error}
}

func described(plant *openapi.PlantRecord) []any {
	return []any{plant.Name, plant.Tag}
}

func counts(result *openapi.ImportResult) []int32 {
	return []int32{result.Stored, result.Replaced, result.Skipped, result.Refused}
}

func ids(plants []openapi.StoredPlant) []string {
	var all []string
	for _, plant := range plants {
		all = append(all, strconv.FormatInt(plant.Id, 10))
	}
	return all
}

func main() {
	configuration := openapi.NewConfiguration()
	configuration.Servers = openapi.ServerConfigurations{{URL: os.Args[1]}}
	client = openapi.NewAPIClient(configuration)
	known, stranger := with(os.Args[2]), with("unknown")
	plants, additions := client.PlantsAPI, client.AdditionsAPI

	newRosa := openapi.NewNewPlant(-7, "Rosa × damascena")
	newRosa.SetTag("Rosa")
	rosa := must(plants.CreatePlant(known).NewPlant(*newRosa).Execute())
	abies := must(plants.CreatePlant(known).NewPlant(*openapi.NewNewPlant(big, "Abies")).Execute())
	stored := must(additions.GetPlant(known, big).Execute())
	everything := must(additions.ListPlants(known).Execute())
	some := must(additions.ListPlants(known).Limit(1).After(-8).Tag("Rosa").Execute())
	rename, untag, other := openapi.NewPlantPatch(), openapi.NewPlantPatch(), openapi.NewPlantPatch()
	rename.SetName("Rosa alba")
	untag.SetTagNil()
	other.SetName("Abies")
	renamed := must(additions.PatchPlant(known, -7).PlantPatch(*rename).Execute())
	untagged := must(additions.PatchPlant(known, -7).PlantPatch(*untag).Execute())
	imported := [][]int32{
		counts(must(additions.ImportPlantsCsv(known).Body(csv).Execute())),
		counts(must(additions.ImportPlantsCsv(known).Body(csv).OnConflict("replace").Execute())),
		counts(must(additions.ImportPlantsNdjson(known).OnConflict("skip").Body(lines).Execute())),
	}
	exported := []string{
		must(additions.ExportPlantsCsv(known).Tag("Rosa").Execute()),
		must(additions.ExportPlantsNdjson(known).Tag("Rosa").Q("alb").Execute()),
	}
	var later openapi.Error
	if err := json.Unmarshal([]byte(`{"error":1999,"message":"a","detail":"b"}`), &later); err != nil {
		panic(err)
	}
	taken := openapi.NewNewPlant(-7, "Abies")
	found := map[string]any{
		"created":    [][]any{described(rosa), described(abies)},
		"got":        []any{strconv.FormatInt(stored.Id, 10), stored.Name, stored.Tag},
		"everything": ids(everything),
		"some":       ids(some),
		"patched":    [][]any{described(renamed), described(untagged)},
		"imported":   imported,
		"exported":   exported,
		"refused": [][]int32{
			refusal(plants.CreatePlant(known).NewPlant(*taken).Execute()),
			refusal(additions.GetPlant(known, 2).Execute()),
			refusal(additions.PatchPlant(known, -7).PlantPatch(*other).IfMatch("\"old\"").Execute()),
			refusal(additions.ListPlants(stranger).Execute()),
		},
		"later": later.Error,
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
