// An original producer: `count` jobs for each of `queues` queues.
const queueFarm = require('queue-farm')
const [url, queues, count] = process.argv.slice(2)
const manager = queueFarm.createManager({ redis: url, timeout: 3000, maxAttempts: 1000 })
async function main () {
  for (let n = 0; n < count; n++) {
    for (let queue = 0; queue < queues; queue++) await manager.push(`user:${queue}`, { n })
  }
  process.exit(0)
}
main()
