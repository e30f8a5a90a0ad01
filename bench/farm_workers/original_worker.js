// The worker of the npm package: drains `total` jobs and prints how long that took, or with 0 waits for jobs.
const queueFarm = require('queue-farm')
const [url, concurrent, total] = process.argv.slice(2)
let first, count = 0
const worker = queueFarm.createWorker({ redis: url, concurrent: Number(concurrent) }, async () => {
  first = first || process.hrtime.bigint()
  if (++count === Number(total)) {
    console.log(Number(process.hrtime.bigint() - first) / 1e9)
    process.exit(0)
  }
})
worker.listen()
