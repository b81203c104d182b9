-- What wrk sends: one new plant a request, its id the next one or a random one.
-- TOKEN, FIRST_ID and IDS (sequential or random) come from the environment.

local threads = 0

function setup(thread)
  thread:set("thread_number", threads)
  threads = threads + 1
end

function init()
  id = tonumber(os.getenv("FIRST_ID")) + thread_number * 1000000000
  random = os.getenv("IDS") == "random"
  math.randomseed(id)
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("TOKEN")
end

function request()
  id = id + 1
  local this = random and math.random(0, 4503599627370496) or id
  local plant = '{"id":%d,"name":"Abies balsamea (L.) Mill. %d","tag":"Abies"}'
  return wrk.format(nil, "/plants", nil, plant:format(this, this))
end

function done(summary, latency)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read
    + summary.errors.write + summary.errors.timeout
  io.write(string.format('{"requests":%d,"failed":%d,"seconds":%f,"p50_ms":%f,"p99_ms":%f}\n',
    summary.requests, failed, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
