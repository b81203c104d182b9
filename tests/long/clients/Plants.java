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
import org.openapitools.client.model.NewPlant;
import org.openapitools.client.model.Plant;
import org.openapitools.client.model.StoredPlant;

/** A program on the Java client that openapi-generator makes: java Plants URL TOKEN. */
public class Plants {
  private static final long BIG = (1L << 53) + 1;
  private static final ObjectMapper MAPPER = ApiClient.createDefaultObjectMapper();

  private interface Call {
    Object run() throws ApiException;
  }

  public static void main(String[] args) throws Exception {
    ApiClient client = client(args[0], args[1]);
    PlantsApi plants = new PlantsApi(client);
    AdditionsApi additions = new AdditionsApi(client);
    AdditionsApi stranger = new AdditionsApi(client(args[0], "unknown"));

    Plant rosa = plants.createPlant(new NewPlant().id(-7L).name("Rosa × damascena").tag("Rosa"));
    Plant abies = plants.createPlant(new NewPlant().id(BIG).name("Abies"));
    StoredPlant big = additions.getPlant(BIG);
    Map<String, Object> found = new LinkedHashMap<>();
    found.put(
        "created",
        List.of(
            Arrays.asList(rosa.getName(), rosa.getTag()),
            Arrays.asList(abies.getName(), abies.getTag())));
    found.put("got", Arrays.asList(String.valueOf(big.getId()), big.getName(), big.getTag()));
    found.put("everything", ids(additions.listPlants(null, null, null)));
    found.put("some", ids(additions.listPlants(1, -8L, "Rosa")));
    found.put(
        "refused",
        List.of(
            refusal(() -> plants.createPlant(new NewPlant().id(-7L).name("Abies"))),
            refusal(() -> additions.getPlant(2L)),
            refusal(() -> stranger.listPlants(null, null, null))));
    found.put("later", error("{\"error\": 1999, \"message\": \"a\", \"detail\": \"b\"}"));
    System.out.println(new ObjectMapper().writeValueAsString(found));
  }

  private static ApiClient client(String url, String token) {
    ApiClient client = new ApiClient();
    client.updateBaseUri(url);
    client.setRequestInterceptor(
        request -> request.header("Authorization", "Bearer " + token));
    return client;
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
