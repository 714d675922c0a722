/** @module Parses the addresses of DNS servers, and reads those that the system uses. */
import { readFileSync } from 'node:fs'
import { isIP, isIPv6 } from 'node:net'
import type { ServerAddress } from './exchange.ts'

const DNS_PORT = 53

/**
 * Parses `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1` or `[2001:db8::1]:53`.
 * @throws TypeError for any other text, which it quotes
 */
export function parseServer(text: string): ServerAddress {
  const bracketed = /^\[([^\]]+)\](?::(\d{1,5}))?$/.exec(text)
  const plain = isIPv6(text) ? [text, text] : /^([^:]+)(?::(\d{1,5}))?$/.exec(text)
  const [, host = '', port] = bracketed ?? plain ?? []
  const server = { host, port: port === undefined ? DNS_PORT : Number(port) }
  if (isIP(host) === 0 || (bracketed !== null && !isIPv6(host)) || server.port < 1 || server.port > 65_535) {
    throw new TypeError(`not a DNS server address: ${JSON.stringify(text)}`)
  }
  return server
}

/**
 * Returns the addresses of the `nameserver` lines in resolv.conf(5), at most three as in libc. Without such lines,
 * returns the address of the local machine.
 */
export function readSystemServers(file = '/etc/resolv.conf'): string[] {
  let text = ''
  try {
    text = readFileSync(file, 'utf8')
  } catch {
    // Without the file, a resolver on the local machine is assumed, as in libc.
  }
  const servers = text.split('\n').flatMap((line) => {
    const address = /^\s*nameserver\s+(\S+)/.exec(line)?.[1]
    return address !== undefined && isIP(address) !== 0 ? [address] : []
  })
  return servers.length > 0 ? servers.slice(0, 3) : ['127.0.0.1']
}
