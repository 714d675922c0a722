/** @module Tests that a service whose clients take all file descriptors goes on. It runs as a process with a limit. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createDataFolder, setUpAccount, startServing } from './process.ts'

setDefaultTimeout(300_000)

/** What strangers send before they are silent. */
const BEGINNINGS = [
  '',
  'GET / HTT',
  'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n',
  'POST /v1/emails HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n',
]

/** Opens idle connections from another address than that of other clients of a test. */
function openIdleConnections(port: number, count: number): Socket[] {
  return Array.from({ length: count }, (_, index) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' }, () =>
      socket.write(BEGINNINGS[index % BEGINNINGS.length] ?? ''),
    )
    return socket
      .on('error', () => undefined)
      .on('end', () => socket.destroy())
      .resume()
  })
}

// Proves: storage-1
test.each([256, 1024])(
  'idle connections of strangers leave some of %i descriptors for Workers, the database and requests',
  async (limit) => {
    using data = createDataFolder()
    const { key, domainId } = await setUpAccount(data.settings, { verified: true })
    await using service = await startServing({ ...data.settings, TASSIS_LOG_LEVEL: 'silent' }, 'serve', {
      descriptors: limit,
    })
    const countOpen = () => readdirSync(`/proc/${service.pid}/fd`).length
    const ask = async (method: string, path: string, body?: object) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const response = await fetch(`${service.url}${path}`, {
        method,
        headers,
        ...(body && { body: JSON.stringify(body) }),
      })
      return { status: response.status, body: (await response.json()) as unknown }
    }
    await ask('PATCH', `/v1/domains/${domainId}`, { inbound_enabled: true })
    const mailbox = await ask('POST', '/v1/agent-mailboxes', { local_part: 'agent' })
    const before = countOpen()
    // Neither is idle, although nothing is sent.
    const stream = await fetch(`${service.url}/v1/events`, {
      headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
    })
    const reader = stream.body?.getReader()
    const poll = ask('GET', `/v1/agent-mailboxes/${at(mailbox.body, 'data', 'id')}/messages/next?timeout=10`)
    const strangers = openIdleConnections(Number(new URL(service.url).port), limit + 60)
    await eventually(() => strangers.filter(({ destroyed }) => destroyed).length > 60)
    // Starts the Worker that renders.
    const template = { name: 'Hello', alias: 'hello', subject: 'Hello {{ name }}', text_body: 'x' }
    expect((await ask('POST', '/v1/templates', template)).status).toBe(201)
    const attachments = [{ filename: 'a.bin', content: 'A'.repeat(400_000), content_type: 'application/octet-stream' }]
    const mail = { from: 'ada@sender.test', to: 'bob@receiver.test', template_alias: 'hello', attachments }
    for (let n = 0; n < 5; n++)
      expect((await ask('POST', '/v1/emails', { ...mail, template_data: { name: n } })).status).toBe(202)
    expect(countOpen()).toBeLessThan(0.95 * limit)
    // Its time is over: nothing came in.
    expect((await poll).status).toBe(408)
    let events = ''
    while (!events.includes('event: queued')) {
      const { value, done } = (await reader?.read()) ?? { done: true }
      expect([events, done]).toEqual([events, false])
      events += new TextDecoder().decode(value)
    }
    for (const stranger of strangers) stranger.destroy()
    await reader?.cancel()
    // A Worker and what it and the first attachment have open are new.
    await eventually(() => countOpen() <= before + 20)
    expect((await ask('GET', '/v1/emails')).status).toBe(200)
  },
)
