-- What wrk sends. All of it comes from the environment:
--   TOKEN
--   SEND      create: one new plant a request, its id the next one or a random one
--             find:   GET /plants/{id}, of a random id up to PLANTS
--             list:   GET /plants?limit=100, after a random id, with a full page to follow
--             get:    GET a random line of TARGETS
--             put:    PUT the next line of TARGETS, with an entity tag for If-Match after a space
--   FIRST_ID, IDS (sequential or random)   for create
--   TARGET, BODY   for create: where it goes, and its form, in which %s is the plant
--   ROWS      for create: how many plants a request has, with commas between them
--   NAMES     for create and put: a file of names, of which each plant has a random one
--   PLANTS    how many are stored, from 1 on   for find and list
--   TARGETS   for get and put: a file
--   PREFER    a value of the field Prefer, or nothing

local threads = 0
local page = 100

local function lines_of(file)
  local lines = {}
  for line in io.lines(file) do
    lines[#lines + 1] = line
  end
  return lines
end

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
  if os.getenv("PREFER") ~= "" then
    wrk.headers["Prefer"] = os.getenv("PREFER")
  end
  if os.getenv("NAMES") ~= "" then
    names = lines_of(os.getenv("NAMES"))
  end
  if send == "get" or send == "put" then
    targets, line = lines_of(os.getenv("TARGETS")), 0
  end
  if send == "put" then
    wrk.headers["Content-Type"] = "application/json"
  elseif send == "create" then
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
    target = os.getenv("TARGET")
    local name = names and "%s" or "Abies balsamea (L.) Mill. %d"
    local plant = '{"id":%d,"name":"' .. name .. '","tag":"Abies"}'
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
  elseif send == "get" then
    return wrk.format(nil, targets[math.random(#targets)])
  elseif send == "put" then
    return put()
  end
  for row = 1, 2 * rows, 2 do
    id = id + 1
    local this = random and math.random(0, 4503599627370496) or id
    ids[row], ids[row + 1] = this, names and names[math.random(#names)] or this
  end
  return wrk.format(nil, target, nil, body:format(unpack(ids)))
end

function put()
  line = line % #targets + 1
  local path, etag = targets[line]:match("(%S+) ?(.*)")
  wrk.headers["If-Match"] = etag ~= "" and etag or nil
  return wrk.format("PUT", path, nil, ('{"name":"%s"}'):format(names[math.random(#names)]))
end

function done(summary, latency)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read
    + summary.errors.write + summary.errors.timeout
  local form = '{"requests":%d,"failed":%d,"seconds":%f,"p50_ms":%f,"p99_ms":%f,"max_ms":%f}\n'
  io.write(form:format(summary.requests, failed, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency.max / 1e3))
end
