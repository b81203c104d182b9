import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.AdditionsApi;
import org.openapitools.client.api.PlantsApi;
import org.openapitools.client.model.Error;
import org.openapitools.client.model.ImportResult;
import org.openapitools.client.model.NewPlant;
import org.openapitools.client.model.Plant;
import org.openapitools.client.model.PlantPatch;
import org.openapitools.client.model.StoredPlant;

/** A program on the Java client that openapi-generator makes: java Plants URL TOKEN. */
public class Plants {
  private static final long BIG = (1L << 53) + 1;
  private static final String CSV = "id,name,tag\n-7,Rosa canina,Rosa\n3,Betula nana,Alba\n";
  private static final String LINES =
      "{\"id\":3,\"name\":\"Picea\"}\n{\"id\":4,\"name\":\"Rosa alba\",\"tag\":\"Rosa\"}\n";
  private static final ObjectMapper MAPPER = new Mapper();

  private interface Call {
    Object run() throws ApiException;
  }

  /** A patch with "tag": null, which this client leaves out: openApiNullable is false. */
  private static class WithoutTag extends PlantPatch {
    @Override
    @JsonInclude(JsonInclude.Include.ALWAYS)
    public String getTag() {
      return null;
    }
  }

  /** Returns a file as it is. The client would read each response as JSON. */
  private static class Mapper extends ObjectMapper {
    Mapper() {
      super(ApiClient.createDefaultObjectMapper());
    }

    @Override
    public ObjectMapper copy() {
      return new Mapper();
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T readValue(String text, TypeReference<T> type) throws JsonProcessingException {
      return type.getType() == String.class ? (T) text : super.readValue(text, type);
    }
  }

  public static void main(String[] args) throws Exception {
    ApiClient client = client(args[0], args[1]);
    PlantsApi plants = new PlantsApi(client);
    AdditionsApi additions = new AdditionsApi(client);
    AdditionsApi stranger = new AdditionsApi(client(args[0], "unknown"));

    Plant rosa = plants.createPlant(new NewPlant().id(-7L).name("Rosa × damascena").tag("Rosa"), null);
    Plant abies = plants.createPlant(new NewPlant().id(BIG).name("Abies"), null);
    StoredPlant big = get(additions, BIG);
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("created", List.of(nameAndTag(rosa), nameAndTag(abies)));
    found.put("got", Arrays.asList(String.valueOf(big.getId()), big.getName(), big.getTag()));
    found.put("everything", ids(list(additions, null, null, null)));
    found.put("some", ids(list(additions, 1, -8L, "Rosa")));
    found.put(
        "patched",
        List.of(
            nameAndTag(patch(additions, new PlantPatch().name("Rosa alba"), null)),
            nameAndTag(patch(additions, new WithoutTag(), null))));
    found.put(
        "imported",
        List.of(
            counts(additions.importPlantsCsv(CSV, null, null, null, null)),
            counts(additions.importPlantsCsv(CSV, "replace", null, null, null)),
            counts(additions.importPlantsNdjson("skip", null, null, null, LINES))));
    found.put(
        "exported",
        List.of(
            additions.exportPlantsCsv(null, null, null, "Rosa", null, null),
            additions.exportPlantsNdjson(null, null, null, "Rosa", null, "alb")));
    found.put(
        "refused",
        List.of(
            refusal(() -> plants.createPlant(new NewPlant().id(-7L).name("Abies"), null)),
            refusal(() -> get(additions, 2L)),
            refusal(() -> patch(additions, new PlantPatch().name("Abies"), "\"old\"")),
            refusal(() -> list(stranger, null, null, null))));
    found.put("later", error("{\"error\": 1999, \"message\": \"a\", \"detail\": \"b\"}"));
    System.out.println(new ObjectMapper().writeValueAsString(found));
  }

  private static ApiClient client(String url, String token) {
    ApiClient client = new ApiClient();
    client.updateBaseUri(url);
    client.setObjectMapper(MAPPER);
    client.setRequestInterceptor(
        request -> request.header("Authorization", "Bearer " + token));
    return client;
  }

  // Java has no optional parameters: the methods of the client need a value for each.

  private static StoredPlant get(AdditionsApi api, long id) throws ApiException {
    return api.getPlant(id, null, null);
  }

  private static List<StoredPlant> list(AdditionsApi api, Integer limit, Long after, String tag)
      throws ApiException {
    return api.listPlants(limit, after, null, null, null, null, tag, null, null, null);
  }

  private static Plant patch(AdditionsApi api, PlantPatch patch, String ifMatch)
      throws ApiException {
    return api.patchPlant(-7L, patch, ifMatch, null, null);
  }

  private static List<String> nameAndTag(Plant plant) {
    return Arrays.asList(plant.getName(), plant.getTag());
  }

  private static List<Integer> counts(ImportResult result) {
    return List.of(
        result.getStored(), result.getReplaced(), result.getSkipped(), result.getRefused());
  }

  private static List<String> ids(List<StoredPlant> plants) {
    return plants.stream().map(plant -> String.valueOf(plant.getId())).toList();
  }

  private static List<Integer> refusal(Call call) throws Exception {
    try {
      call.run();
    } catch (ApiException refused) {
      return List.of(refused.getCode(), error(refused.getResponseBody()));
    }
    return List.of();
  }

  private static int error(String body) throws Exception {
    return MAPPER.readValue(body, Error.class).getError();
  }
}
