-- What wrk sends. All of it comes from the environment:
--   TOKEN
--   SEND      create: one new plant a request, its id the next one or a random one
--             find:   GET /plants/{id}, of a random id up to PLANTS
--             list:   GET /plants?limit=100, after a random id, with a full page to follow
--   FIRST_ID, IDS (sequential or random)   for create
--   TARGET, BODY   for create: where it goes, and its form, in which %s is the plant
--   ROWS      for create: how many plants a request has, with commas between them
--   PLANTS    how many are stored, from 1 on   for find and list

local threads = 0
local page = 100

function setup(thread)
  thread:set("thread_number", threads)
  threads = threads + 1
end

function init()
  id = tonumber(os.getenv("FIRST_ID")) + thread_number * 1000000000
  send = os.getenv("SEND")
  random = os.getenv("IDS") == "random"
  plants = tonumber(os.getenv("PLANTS"))
  math.randomseed(id + os.time())
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("TOKEN")
  if send == "create" then
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
    target = os.getenv("TARGET")
    local plant = '{"id":%d,"name":"Abies balsamea (L.) Mill. %d","tag":"Abies"}'
    rows = tonumber(os.getenv("ROWS"))
    body = os.getenv("BODY"):format(plant:rep(rows, ","))
    ids = {}
  end
end

function request()
  if send == "find" then
    return wrk.format(nil, "/plants/" .. math.random(1, plants))
  elseif send == "list" then
    return wrk.format(nil, "/plants?limit=" .. page .. "&after=" .. math.random(0, plants - page))
  end
  for row = 1, 2 * rows, 2 do
    id = id + 1
    local this = random and math.random(0, 4503599627370496) or id
    ids[row], ids[row + 1] = this, this
  end
  return wrk.format(nil, target, nil, body:format(unpack(ids)))
end

function done(summary, latency)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read
    + summary.errors.write + summary.errors.timeout
  local form = '{"requests":%d,"failed":%d,"seconds":%f,"p50_ms":%f,"p99_ms":%f,"max_ms":%f}\n'
  io.write(form:format(summary.requests, failed, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
end
