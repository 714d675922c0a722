/** @module `tassis mcp`: gives a language model on this machine the tools of a service, over standard input and output. */
import type { Command } from 'commander'
import { MCP_PATH } from '#features/drop-in/mcp/routes.ts'
import { serveStdio } from '#features/drop-in/mcp/stdio.ts'
import { loadConfig } from '../settings.ts'
import { UsageError } from './admin-command.ts'
import { findServiceUrl } from './local-service.ts'
import { readKeyFile } from './service-key.ts'

export function addMcpCommand(program: Command): void {
  program
    .command('mcp')
    .description('serve the tools of a service to a language model (MCP) over standard input and output')
    .option('--url <url>', 'address of the service; default: the service on this machine')
    .option('--key-file <path>', 'file with the API key; default: TASSIS_API_KEY')
    .action(async ({ url, keyFile }: { readonly url?: string; readonly keyFile?: string }) => {
      const { config } = loadConfig()
      const key = keyFile === undefined ? config.apiKey : readKeyFile(keyFile)
      if (key === '')
        throw new UsageError(
          'Set TASSIS_API_KEY to an API key, or give a file with one by --key-file: it decides which account the model sees, and which tools it gets. On the machine of the service, `tassis keys create --name assistant --scope emails:read --scope domains:read` makes one that can only read; elsewhere, the dashboard does (API keys).',
        )
      await serveStdio({
        endpoint: toEndpoint(url ?? (await findServiceUrl(config))),
        key,
        input: Bun.stdin.stream(),
        write: (message) => process.stdout.write(`${message}\n`),
        fetch,
      })
    })
}

function toEndpoint(url: string): string {
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new UsageError('--url must be an address such as https://mail.example.com.')
  return url.replace(/(?<!\/)\/+$/, '').replace(/\/mcp$/, '') + MCP_PATH
}
