import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseServer, readSystemServers } from '#protocols/dns/servers.ts'

test.each([
  ['192.0.2.1', { host: '192.0.2.1', port: 53 }],
  ['192.0.2.1:5353', { host: '192.0.2.1', port: 5353 }],
  ['2001:db8::1', { host: '2001:db8::1', port: 53 }],
  ['[2001:db8::1]', { host: '2001:db8::1', port: 53 }],
  ['[2001:db8::1]:5353', { host: '2001:db8::1', port: 5353 }],
])('the server address %s is parsed', (text, server) => {
  expect(parseServer(text)).toEqual(server)
})

describe("the system's servers", () => {
  const read = (text: string): string[] => {
    const folder = mkdtempSync(join(tmpdir(), 'resolv-'))
    try {
      writeFileSync(join(folder, 'resolv.conf'), text)
      return readSystemServers(join(folder, 'resolv.conf'))
    } finally {
      rmSync(folder, { recursive: true })
    }
  }

  test('are the nameserver lines in order, at most three', () => {
    const text =
      '# a comment\nsearch example.com\nnameserver 192.0.2.1\nnameserver\t2001:db8::1 # note\noptions edns0\n;nameserver 192.0.2.9\n'
    expect(read(text)).toEqual(['192.0.2.1', '2001:db8::1'])
    expect(read('nameserver 192.0.2.1\n'.repeat(5))).toHaveLength(3)
  })

  test('are the local machine when none is listed or the file is missing', () => {
    expect(read('search example.com\nnameserver nonsense\n')).toEqual(['127.0.0.1'])
    expect(readSystemServers(join(tmpdir(), 'no', 'such', 'resolv.conf'))).toEqual(['127.0.0.1'])
  })
})
