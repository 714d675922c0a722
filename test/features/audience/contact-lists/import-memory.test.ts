import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { MiB } from '#platform/units.ts'
import { createList } from './files.ts'

const CHILD = new URL('../../../support/service-process.ts', import.meta.url).pathname
const FILE_BYTES = 256 * MiB
/** With the garbage that may accumulate before a collection: a quarter of the memory for bodies. */
const MAX_GROWN_BYTES = 100 * MiB

/** Posts a file over a raw socket, since other clients normalise the path. Returns the status line of the response. */
function post(url: string, path: string, key: string, file: Uint8Array): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: text/csv\r\nContent-Length: ${file.length}\r\n\r\n`,
  )
  socket.write(file)
  return new Promise((resolve, reject) => {
    socket.on('error', reject)
    socket.once('data', (answer) => {
      socket.destroy()
      resolve(answer.toString().split('\r\n')[0] ?? '')
    })
  })
}

test.each([
  ['', '/v1'],
  [' through a base URL with a slash at its end', '//v1'],
])('a file of 256 MiB that is uploaded%s is never in memory as a whole', async (_, prefix) => {
  const child = Bun.spawn([process.execPath, CHILD], {
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  try {
    const [line = ''] = new TextDecoder().decode((await child.stdout.getReader().read()).value).split('\n')
    const { url, key } = JSON.parse(line) as { url: string; key: string }
    const heldBytes = (what: 'VmHWM' | 'VmRSS') =>
      Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) *
      1024
    const list = await createList({
      api: async (method, path, body) => {
        const response = await fetch(`${url}${path}`, {
          method,
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
        return { status: response.status, headers: response.headers, body: await response.json() }
      },
    })
    const before = heldBytes('VmRSS')
    const file = Buffer.alloc(FILE_BYTES, 'somebody@x.test\n')
    expect(await post(url, `${prefix}/contact-lists/${list}/contacts/import`, key, file)).toBe('HTTP/1.1 202 Accepted')
    expect(Math.max(0, heldBytes('VmHWM') - before - MAX_GROWN_BYTES)).toBe(0)
  } finally {
    child.stdin.end()
    await child.exited
  }
})
