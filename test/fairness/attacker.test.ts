import { expect, test } from 'bun:test'
import { join } from 'node:path'

/** Number of concurrent requests of attack 10b. */
const WIDTH = 4

/** Runs attack 10b, which creates a list and adds contacts to it, against a service with these replies. */
async function attack(replies: { readonly list: number; readonly contacts: number }) {
  let child: Bun.Subprocess | undefined
  let adds = 0
  await using service = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch({ url }) {
      if (!url.endsWith('/contacts')) return Response.json({ data: { id: 'list' } }, { status: replies.list })
      // One request more than WIDTH means that the attacker has received the reply to an earlier one.
      if (++adds > WIDTH) child?.kill()
      return new Response(null, { status: replies.contacts })
    },
  })
  const context = { url: service.url.origin, attacker: { key: 'key' } }
  const program = join(import.meta.dir, 'attacker.ts')
  const attacker = Bun.spawn([process.execPath, program, '10b', '30', JSON.stringify(context)], {
    stdout: 'pipe',
    stderr: 'pipe',
  })
  child = attacker
  const [code, printed, error] = await Promise.all([
    attacker.exited,
    new Response(attacker.stdout).text(),
    new Response(attacker.stderr).text(),
  ])
  return { code, printed, error }
}

test('an attack whose preparation is refused fails and says why', async () => {
  const { code, error } = await attack({ list: 403, contacts: 201 })
  expect({ code, error }).toEqual({ code: 1, error: expect.stringContaining('attack 10b could not start') })
})

test('a stopped attack prints the number of each reply', async () => {
  const { code, printed } = await attack({ list: 201, contacts: 403 })
  expect({ code, replies: JSON.parse(printed) }).toEqual({ code: 0, replies: [['403', expect.any(Number)]] })
})
