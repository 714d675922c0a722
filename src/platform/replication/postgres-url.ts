/** @module The URL of PostgreSQL, which may name several hosts. Apart from the connection, because settings check it too. */

const URL_PATTERN = /^(postgres(?:ql)?:\/\/)([^@/?]*@)?([^@/?]+)(\/[^?]+)(\?.*)?$/
/** Undefined or one of the modes of libpq. */
const SSL_MODES = /^(?!.*sslmode=(?!(?:disable|allow|prefer|require|verify-ca|verify-full)(?:&|$)))/
const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/
const DEFAULT_PORT = 5432

export interface PostgresHost {
  /** `host:port`, for messages. */
  readonly name: string
  readonly url: string
  readonly isLoopback: boolean
}

/** Splits `postgres://user:password@host:5432,host2/database?sslmode=…` into a URL for each host; undefined for any other text. */
export function parsePostgresUrl(value: string): PostgresHost[] | undefined {
  const [, scheme = '', login = '', hosts = '', database = '', query = ''] = URL_PATTERN.exec(value) ?? []
  if (scheme === '' || !SSL_MODES.test(query)) return undefined
  const found = hosts.split(',').map((host) => {
    const url = URL.parse(`${scheme}${login}${host}${database}${query}`)
    if (!url || url.hostname === '') return undefined
    const isLoopback = LOOPBACK.test(url.hostname)
    return { name: `${url.hostname}:${url.port || DEFAULT_PORT}`, url: url.href, isLoopback }
  })
  return found.every((host) => host !== undefined) ? found : undefined
}

/** Whether the URL asks for TLS, without which a password and mail would cross the network in clear. */
export const usesTls = (value: string): boolean => /[?&]sslmode=(?:require|verify-ca|verify-full)(?:&|$)/.test(value)
