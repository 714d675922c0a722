/**
 * @module `tassis mail`: mail for the operator, addressed to postmaster or abuse, and reports that could not be parsed.
 * The content is untrusted: control characters never reach the terminal, and HTML is never rendered.
 */
import { type Command, Option } from 'commander'
import { createMailTextReader, retryOperatorMail } from '#features/receiving/inbound/process/retry.ts'
import type { OperatorMailDetail } from '#features/receiving/postmaster/model.ts'
import { toMailView } from '#features/receiving/postmaster/model.ts'
import { readOperatorMail } from '#features/receiving/postmaster/operator-mail.ts'
import {
  deleteOperatorMail,
  findOperatorMail,
  listOperatorMail,
  OPERATOR_MAIL_KINDS,
  type OperatorMailKind,
} from '#features/receiving/postmaster/store.ts'
import { truncate } from '#platform/text.ts'
import { MiB } from '#platform/units.ts'
import { loadConfig } from '../settings.ts'
import { CommandError, defineAdminCommand } from './admin-command.ts'
import { type Call, runAdminCommand, withData } from './call.ts'
import { addCommand, type JsonOption, withLimit } from './options.ts'
import {
  formatFields,
  formatUtc,
  print,
  printJson,
  printList,
  printResult,
  toList,
  toPrintableLines,
} from './output.ts'

interface ListInput {
  readonly kind?: OperatorMailKind | undefined
  readonly limit: number
}

const list = defineAdminCommand('mail.list', ({ opened: { app } }, { kind, limit }: ListInput) => {
  const { mail, total } = listOperatorMail(app.db, { kind, limit })
  return toList(mail.map(toMailView), total)
})

interface MailInput {
  readonly id: string
}

const show = defineAdminCommand('mail.show', ({ opened: { app, parser } }, { id }: MailInput) =>
  readOperatorMail(app, createMailTextReader(app, parser), id),
)

/** Size from which a chunk of a message ends, because the service does nothing else while it reads a chunk. */
const CHUNK_BYTES = 4 * MiB

interface Chunk {
  readonly base64: string
  /** Offset of the next chunk; null at the end. */
  readonly next: number | null
}

/** Returns a chunk of the raw message from `offset` on. */
const raw = defineAdminCommand(
  'mail.raw',
  ({ opened: { app } }, { id, offset }: MailInput & { readonly offset: number }): Chunk => {
    const chunks: Uint8Array[] = []
    let end = offset
    for (const bytes of app.rawMail.chunks(findOperatorMail(app.db, id).rawRef, offset)) {
      if (end - offset >= CHUNK_BYTES) return toChunk(chunks, end)
      chunks.push(bytes)
      end += bytes.length
    }
    return toChunk(chunks, null)
  },
)

const toChunk = (parts: readonly Uint8Array[], next: number | null): Chunk => ({
  base64: Buffer.concat(parts).toString('base64'),
  next,
})

const remove = defineAdminCommand('mail.delete', async ({ opened: { app } }, { id }: MailInput) => {
  await deleteOperatorMail(app, id)
  return { deleted: id }
})

const retry = defineAdminCommand('mail.retry', async ({ opened: { app } }, { id }: MailInput) => {
  await retryOperatorMail(app, id)
  return { retried: id }
})

export const mailAdminCommands = [list, show, raw, remove, retry]

export function addMailCommands(program: Command): void {
  const mail = program
    .command('mail')
    .description('list, show or retry mail to postmaster and abuse, and reports that could not be parsed')

  withLimit(addCommand(mail, 'list', 'list the newest messages'), 'messages', 30)
    .addOption(new Option('--kind <kind>', 'only of this kind').choices(OPERATOR_MAIL_KINDS))
    .action(async (options: JsonOption & ListInput) => {
      printList(
        options,
        await runAdminCommand(list, options),
        'There is no mail for the operator.',
        ['ID', 'RECEIVED', 'KIND', 'TO', 'FROM', 'SUBJECT', 'WHY HERE'],
        (row) => [
          row.id,
          formatUtc(row.received_at),
          row.kind,
          truncate(row.rcpt_to.join(', '), MAX_CELL_LENGTH),
          truncate(row.from ?? formatAddress(row.mail_from), MAX_CELL_LENGTH),
          truncate(row.subject, MAX_CELL_LENGTH),
          row.reason,
        ],
      )
    })

  addCommand(mail, 'show', 'show a message')
    .argument('<id>', 'message ID, as shown by `tassis mail list`')
    .option('--raw', 'show the raw message without control characters; with --json unchanged, in base64')
    .action(async (id: string, options: JsonOption & { raw?: boolean }) => {
      await withData(loadConfig().config, async (call) => {
        const shown = await call(show, { id })
        if (!options.raw) return printResult(options, shown, formatMail)
        if (shown.source === null) throw new CommandError(GONE_MESSAGE)
        const bytes = await fetchRaw(call, id)
        if (options.json) printJson({ ...shown, raw_base64: bytes.toString('base64') })
        else print(toPrintableLines(bytes.toString('utf8').trimEnd()))
      })
    })

  addCommand(mail, 'retry', 'process a message again, such as a bounce that could not be parsed')
    .argument('<id>', 'message ID, as shown by `tassis mail list`')
    .action(async (id: string, options: JsonOption) => {
      printResult(
        options,
        await runAdminCommand(retry, { id }),
        () => 'The message is being processed again; if it cannot be parsed, it returns to `tassis mail list`.',
      )
    })

  addCommand(mail, 'delete', 'delete a message permanently')
    .argument('<id>', 'message ID, as shown by `tassis mail list`')
    .action(async (id: string, options: JsonOption) => {
      printResult(options, await runAdminCommand(remove, { id }), () => 'Deleted.')
    })
}

/** Fetches the raw message. */
async function fetchRaw(call: Call, id: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  for (let offset: number | null = 0; offset !== null; ) {
    const chunk: Chunk = await call(raw, { id, offset })
    chunks.push(Buffer.from(chunk.base64, 'base64'))
    offset = chunk.next
  }
  return Buffer.concat(chunks)
}

const GONE_MESSAGE = 'The message is no longer stored; only its entry in `tassis mail list` is left.'

const formatAddress = (address: string): string => (address === '' ? '<>' : address)

const formatMail = (mail: OperatorMailDetail): string =>
  [
    formatFields([
      ['Received', `${formatUtc(mail.received_at)} from ${mail.source_ip}, ${mail.size_bytes} bytes`],
      ['Kind', mail.kind],
      ['Why here', mail.reason],
      ['Envelope', `${formatAddress(mail.mail_from)} to ${mail.rcpt_to.join(', ')}`],
      ['From', mail.from ?? ''],
      ['Subject', mail.subject],
    ]),
    '',
    mail.text === null
      ? `(${mail.source === null ? GONE_MESSAGE : 'It has no text to show; --raw shows the whole message.'})`
      : toPrintableLines(mail.text.trimEnd()),
  ].join('\n')

const MAX_CELL_LENGTH = 60
