/**
 * @module `tassis mail`: mail for the operator, addressed to postmaster or abuse, and reports that could not be parsed.
 * The content is untrusted: control characters never reach the terminal, and HTML is never rendered.
 */
import { type Command, Option } from 'commander'
import { retryOperatorMail } from '#features/receiving/inbound/process/retry.ts'
import {
  deleteOperatorMail,
  findOperatorMail,
  listOperatorMail,
  OPERATOR_MAIL_KINDS,
  type OperatorMailKind,
} from '#features/receiving/postmaster/store.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { MiB } from '#platform/units.ts'
import { UnparseableError } from '#protocols/mime/parsed.ts'
import { type MailView, toMailView } from '../operator/operator-mail.ts'
import { loadConfig } from '../settings.ts'
import { CommandError, defineAdminCommand } from './admin-command.ts'
import { type Call, runAdminCommand, withData } from './call.ts'
import { type JsonOption, withJson, withLimit } from './options.ts'
import { formatTable, formatUtc, print, printJson, printResult, toList, toPrintable, truncate } from './output.ts'

interface ListInput {
  readonly kind?: OperatorMailKind
  readonly limit: number
}

const list = defineAdminCommand('mail.list', ({ opened: { app } }, { kind, limit }: ListInput) => {
  const { mail, total } = listOperatorMail(app.db, { kind, limit })
  return toList(mail.map(toMailView), total)
})

interface MailInput {
  readonly id: string
}

const show = defineAdminCommand('mail.show', ({ opened: { app } }, { id }: MailInput) =>
  toMailView(findOperatorMail(app.db, id)),
)

/** Size from which a chunk of a message ends, because the service does nothing else while it reads a chunk. */
const CHUNK_BYTES = 4 * MiB

interface Chunk {
  readonly base64: string
  /** Offset of the next chunk; null at the end. */
  readonly next: number | null
}

/** Returns a chunk of the raw message from `offset` on; null if it is no longer stored. */
const raw = defineAdminCommand(
  'mail.raw',
  ({ opened: { app } }, { id, offset }: MailInput & { readonly offset: number }): Chunk | null => {
    const { rawRef } = findOperatorMail(app.db, id)
    try {
      const chunks: Uint8Array[] = []
      let end = offset
      for (const bytes of app.rawMail.chunks(rawRef, offset)) {
        if (end - offset >= CHUNK_BYTES) return toChunk(chunks, end)
        chunks.push(bytes)
        end += bytes.length
      }
      return toChunk(chunks, null)
    } catch (error) {
      if (!(error instanceof MissingBlobError)) throw error
      // The month of the content store was deleted or is missing from a backup; the list entry is still worth showing.
      app.log.warn({ err: error, mail: id }, 'cannot read operator mail')
      return null
    }
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

  withLimit(withJson(mail.command('list').description('list the newest messages')), 'maximum number of messages', 30)
    .addOption(new Option('--kind <kind>', 'only of this kind').choices(OPERATOR_MAIL_KINDS))
    .action(async (options: JsonOption & ListInput) => {
      const { kind, limit } = options
      printResult(options, await runAdminCommand(list, { limit, ...(kind !== undefined && { kind }) }), formatList)
    })

  withJson(mail.command('show').description('show a message'))
    .argument('<id>', 'message ID, as shown by `tassis mail list`')
    .option('--raw', 'show the raw message without control characters; with --json unchanged, in base64')
    .action(async (id: string, options: JsonOption & { raw?: boolean }) => {
      await withData(loadConfig().config, async (call) => {
        const shown = await call(show, { id })
        const bytes = await fetchRaw(call, id)
        if (!options.raw) {
          const text = bytes === null ? null : await extractText(bytes, shown.mail_from)
          printResult(options, { ...shown, text }, (value) => formatMail(value, bytes === null))
        } else if (bytes === null) throw new CommandError(GONE_MESSAGE)
        else if (options.json) printJson({ ...shown, raw_base64: bytes.toString('base64') })
        else print(toPrintableLines(bytes.toString('utf8')))
      })
    })

  withJson(mail.command('retry').description('process a message again, such as a bounce that could not be parsed'))
    .argument('<id>', 'message ID, as shown by `tassis mail list`')
    .action(async (id: string, options: JsonOption) => {
      printResult(
        options,
        await runAdminCommand(retry, { id }),
        () => 'The message is being processed again; if it cannot be parsed, it returns to `tassis mail list`.',
      )
    })

  withJson(mail.command('delete').description('delete a message permanently'))
    .argument('<id>', 'message ID, as shown by `tassis mail list`')
    .action(async (id: string, options: JsonOption) => {
      printResult(options, await runAdminCommand(remove, { id }), () => 'Deleted.')
    })
}

/** Fetches the raw message; null if it is no longer stored. */
async function fetchRaw(call: Call, id: string): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  for (let offset: number | null = 0; offset !== null; ) {
    const chunk: Chunk | null = await call(raw, { id, offset })
    if (chunk === null) return null
    chunks.push(Buffer.from(chunk.base64, 'base64'))
    offset = chunk.next
  }
  return Buffer.concat(chunks)
}

const GONE_MESSAGE = 'The message is no longer stored; only its entry in `tassis mail list` is left.'

/** Maximum length of the text; --raw shows the whole message. */
const MAX_TEXT_LENGTH = 100_000

/** Returns the text of a message; null when it has none or cannot be parsed. */
async function extractText(bytes: Uint8Array, mailFrom: string): Promise<string | null> {
  // Loaded here: no other command parses mail.
  const { parseMessage } = await import('#protocols/mime/parse.ts')
  try {
    const { text } = await parseMessage(bytes, { mailFrom })
    return text === null ? null : truncate(text, MAX_TEXT_LENGTH)
  } catch (error) {
    if (error instanceof UnparseableError) return null
    throw error
  }
}

/** Removes control characters from text of several lines. */
const toPrintableLines = (text: string): string => text.trimEnd().split(/\r?\n/).map(toPrintable).join('\n')

const formatAddress = (address: string): string => (address === '' ? '<>' : address)

function formatMail(mail: MailView & { readonly text: string | null }, isGone: boolean): string {
  if (mail.text !== null) return `${formatHeader(mail)}\n\n${toPrintableLines(mail.text)}`
  return `${formatHeader(mail)}\n\n(${isGone ? GONE_MESSAGE : 'It has no text to show; --raw shows the whole message.'})`
}

const formatHeader = (mail: MailView): string =>
  (
    [
      ['Received', `${formatUtc(mail.received_at)} from ${mail.source_ip}, ${mail.size_bytes} bytes`],
      ['Kind', mail.kind],
      ['Why here', mail.reason],
      ['Envelope', `${formatAddress(mail.mail_from)} to ${mail.rcpt_to.join(', ')}`],
      ['From', mail.from ?? ''],
      ['Subject', mail.subject],
    ] as const
  )
    .map(([name, value]) => `${`${name}:`.padEnd(10)} ${toPrintable(value)}`)
    .join('\n')

const MAX_CELL_LENGTH = 60

function formatList({ data: mail, total }: Awaited<ReturnType<(typeof list)['run']>>): string {
  if (mail.length === 0) return 'There is no mail for the operator.'
  return [
    formatTable(
      ['ID', 'RECEIVED', 'KIND', 'TO', 'FROM', 'SUBJECT', 'WHY HERE'],
      mail.map((row) => [
        row.id,
        formatUtc(row.received_at),
        row.kind,
        truncate(row.rcpt_to.join(', '), MAX_CELL_LENGTH),
        truncate(row.from ?? formatAddress(row.mail_from), MAX_CELL_LENGTH),
        truncate(row.subject, MAX_CELL_LENGTH),
        row.reason,
      ]),
    ),
    ...(total > mail.length ? [`… and ${total - mail.length} more (--limit)`] : []),
  ].join('\n')
}
