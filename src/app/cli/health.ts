/** @module `tassis health`: checks whether the running service is ready, for container engines and monitors. */
import type { Command } from 'commander'
import { loadConfig } from '../settings.ts'
import { CommandError } from './admin-command.ts'
import { findServiceUrl } from './local-service.ts'
import { type JsonOption, withJson } from './options.ts'
import { printResult } from './output.ts'

const TIMEOUT_MS = 5000

export function addHealthCommand(program: Command): void {
  withJson(
    program.command('health').description('check whether the running service is ready; exit code 1 if not'),
  ).action(async (options: JsonOption) => {
    const url = await findServiceUrl(loadConfig().config)
    const problem = await findReadinessProblem(`${url}/readyz`)
    if (problem !== undefined) throw new CommandError(problem, 'not_ready')
    // The address, because a service with other data may answer there.
    printResult(options, { ready: true, url }, () => `ready: ${url}`)
  })
}

/** Returns why the service is not ready; undefined when it is. */
async function findReadinessProblem(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) })
    if (response.ok) return undefined
    const body = (await response.json()) as { message?: string }
    return body.message ?? `${url} answers with status ${response.status}; set TASSIS_HTTP_ADDR to that of the service.`
  } catch (error) {
    if (error instanceof DOMException && error.name === 'TimeoutError')
      return `The service at ${url} does not respond within ${TIMEOUT_MS / 1000} s.`
    return `No service answers at ${url}; start it with \`tassis serve\`, or set TASSIS_HTTP_ADDR to that of the service.`
  }
}
