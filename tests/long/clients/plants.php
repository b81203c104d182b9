<?php
// A program on the PHP client that openapi-generator makes: php plants.php FOLDER URL TOKEN

use OpenAPI\Client\Api\AdditionsApi;
use OpenAPI\Client\Api\PlantsApi;
use OpenAPI\Client\ApiException;
use OpenAPI\Client\Configuration;
use OpenAPI\Client\Model\Error;
use OpenAPI\Client\Model\NewPlant;
use OpenAPI\Client\Model\PlantPatch;
use OpenAPI\Client\ObjectSerializer;

[, $folder, $url, $token] = $argv;
require 'GuzzleHttp/autoload.php'; // Debian: php-guzzlehttp-guzzle
spl_autoload_register(function ($class) use ($folder) {
    $file = str_replace(['OpenAPI\\Client\\', '\\'], ["$folder/lib/", '/'], $class) . '.php';
    if (is_file($file)) {
        require $file;
    }
});
set_error_handler(function ($severity, $message, $file, $line) {
    throw new ErrorException($message, 0, $severity, $file, $line);
}, E_WARNING);

function configuration($url, $token)
{
    return (new Configuration())->setHost($url)->setAccessToken($token);
}

function ids($plants)
{
    return array_map(fn($plant) => (string) $plant->getId(), $plants);
}

function name_and_tag($plant)
{
    return [$plant->getName(), $plant->getTag()];
}

function counts($result)
{
    return [$result->getStored(), $result->getReplaced(), $result->getSkipped(), $result->getRefused()];
}

function refusal($call)
{
    try {
        $call();
    } catch (ApiException $error) {
        return [$error->getCode(), $error->getResponseObject()->getError()];
    }
    return [];
}

$plants = new PlantsApi(null, configuration($url, $token));
$additions = new AdditionsApi(null, configuration($url, $token));
$stranger = new AdditionsApi(null, configuration($url, 'unknown'));
$big_id = 2 ** 53 + 1;

$rosa = $plants->createPlant(new NewPlant(['id' => -7, 'name' => 'Rosa × damascena', 'tag' => 'Rosa']));
$new = (new NewPlant())->setId($big_id)->setName('Abies'); // which holds the name to the pattern
$abies = $plants->createPlant($new);
$big = $additions->getPlant($big_id);
$to_abies = new PlantPatch(['name' => 'Abies']);
$csv = "id,name,tag\n-7,Rosa canina,Rosa\n3,Betula nana,Alba\n";
$lines = '{"id":3,"name":"Picea"}' . "\n" . '{"id":4,"name":"Rosa alba","tag":"Rosa"}' . "\n";
$later = ObjectSerializer::deserialize('{"error": 1999, "message": "a", "detail": "b"}', Error::class);

echo json_encode([
    'created' => [name_and_tag($rosa), name_and_tag($abies)],
    'got' => [(string) $big->getId(), $big->getName(), $big->getTag()],
    'everything' => ids($additions->listPlants()),
    'some' => ids($additions->listPlants(limit: 1, after: -8, tag: 'Rosa')),
    'patched' => [
        name_and_tag($additions->patchPlant(-7, new PlantPatch(['name' => 'Rosa alba']))),
        name_and_tag($additions->patchPlant(-7, new PlantPatch(['tag' => null]))),
    ],
    'imported' => [
        counts($additions->importPlantsCsv($csv)),
        counts($additions->importPlantsCsv($csv, on_conflict: 'replace')),
        counts($additions->importPlantsNdjson(on_conflict: 'skip', body: $lines)),
    ],
    'exported' => [
        $additions->exportPlantsCsv(tag: 'Rosa'),
        $additions->exportPlantsNdjson(tag: 'Rosa', q: 'alb'),
    ],
    'refused' => [
        refusal(fn() => $plants->createPlant(new NewPlant(['id' => -7, 'name' => 'Abies']))),
        refusal(fn() => $additions->getPlant(2)),
        refusal(fn() => $additions->patchPlant(-7, $to_abies, if_match: '"old"')),
        refusal(fn() => $stranger->listPlants()),
    ],
    'later' => $later->getError(),
]), "\n";
