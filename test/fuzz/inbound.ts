/**
 * @module Attacks the SMTP listener in one way after the other, and prints the memory of its process above idle and the
 * response times of its HTTP server. After each attack an ordinary message must be accepted. See `scripts/fuzz-inbound
 * --help`.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { seededRandom } from '#test/support/random.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { attacks } from './inbound-attacks.ts'
import { formatMegabytes, readMemoryBytes, watch } from './watch.ts'

const HELP = `scripts/fuzz-inbound [--seed N] [--connections N] [--only TEXT]
Attacks the SMTP listener and prints memory and HTTP responses. Exits with 1 when memory exceeds idle by more than 200 MB,
when HTTP does not respond, or when an ordinary message is not accepted after an attack.`

const { values: args } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    connections: { type: 'string', default: '1000' },
    only: { type: 'string', default: '' },
    /** Index of an attack and the port: the program runs it, so that its memory and time distort no measurement. */
    attack: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
if (args.help) {
  console.log(HELP)
  process.exit(0)
}
if (args.attack !== undefined) {
  const [index = 0, port = 0] = args.attack.split(':').map(Number)
  // The connection can end at any moment; that is not an error here.
  process.on('uncaughtException', () => {})
  await attacks[index]?.run(port, seededRandom(Number(args.seed) + index))
  process.exit(0)
}

const server = Bun.spawn([process.execPath, join(import.meta.dir, 'inbound-server.ts'), args.connections], {
  stdin: 'pipe',
  stdout: 'pipe',
  stderr: 'inherit',
})
const { value: firstLine } = await server.stdout.getReader().read()
const ports = JSON.parse(new TextDecoder().decode(firstLine)) as { smtp: number; http: number }

// Sends one message of each kind, so that memory for what is loaded only once counts as idle.
await sendOrdinaryMessage()
await Bun.sleep(1_000)
const idleBytes = readMemoryBytes(server.pid)
const watched = { pid: server.pid, url: `http://127.0.0.1:${ports.http}/`, idleBytes }
console.log(`idle: ${formatMegabytes(idleBytes)} MB, up to ${args.connections} connections, seed ${args.seed}`)
console.log('  seconds  MB above idle (peak)   HTTP ms p50    p99    max   attack')

let hasFailed = false
for (const [index, { name }] of attacks.entries()) {
  if (!name.includes(args.only)) continue
  const attacker = Bun.spawn(
    [process.execPath, import.meta.path, '--attack', `${index}:${ports.smtp}`, '--seed', args.seed],
    { stdout: 'inherit', stderr: 'inherit' },
  )
  const { seconds, peakBytes, responseMs, problems } = await watch(watched, () => attacker.exitCode !== null)
  const broken = (await sendOrdinaryMessage())
    ? problems
    : [...problems, 'AN ORDINARY MESSAGE WAS NOT ACCEPTED AFTERWARDS']
  hasFailed ||= broken.length > 0
  const at = (fraction: number) =>
    responseMs[Math.min(responseMs.length - 1, Math.floor(responseMs.length * fraction))] ?? Number.NaN
  console.log(
    [
      seconds.toFixed(1).padStart(9),
      formatMegabytes(peakBytes).padStart(15),
      at(0.5).toFixed(1).padStart(20),
      at(0.99).toFixed(1).padStart(7),
      at(1).toFixed(1).padStart(7),
      `   ${[name, ...broken].join('  ')}`,
    ].join(''),
  )
}
await Bun.sleep(6_000)
console.log(`after all: ${formatMegabytes(readMemoryBytes(server.pid) - idleBytes)} MB above idle`)
server.stdin.end()
await server.exited
process.exit(hasFailed ? 1 : 0)

/**
 * Whether an ordinary message is accepted, in plaintext and over TLS; the attackers' connections may still occupy slots
 * for a moment.
 */
async function sendOrdinaryMessage(): Promise<boolean> {
  for (let attempt = 0; attempt < 100; attempt++) {
    try {
      await using client = await connectSmtp(ports.smtp)
      if ((await client.reply()).startsWith('220')) {
        const replies: string[] = []
        for (const isSecure of [false, true]) {
          if (isSecure) await client.startTls()
          for (const line of ['EHLO a.test', 'MAIL FROM:<a@b.test>', 'RCPT TO:<c@d.test>', 'DATA'])
            await client.say(line)
          replies.push(await client.say('Subject: x\r\n\r\nHello.\r\n.'))
        }
        if (replies.every((reply) => reply.startsWith('250'))) return true
      }
    } catch {
      // Retried below.
    }
    await Bun.sleep(100)
  }
  return false
}
