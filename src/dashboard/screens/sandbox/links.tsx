/** @module The check of the links of a captured message; runs on request only. */
import { Code, Stack, Text } from '@mantine/core'
import type { CheckCapturedEmailLinksResult } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { ActionButton } from '../../parts/buttons.tsx'
import { FormError } from '../../parts/form-error.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import type { Tone } from '../../parts/tone.ts'

type CheckedLink = CheckCapturedEmailLinksResult['links'][number]

const RESULTS: Readonly<Record<CheckedLink['result'], readonly [word: string, tone: Tone]>> = {
  ok: ['Works', 'good'],
  redirected: ['Redirects', 'good'],
  broken: ['Broken', 'bad'],
  unreachable: ['Unreachable', 'bad'],
  skipped: ['Not requested', 'neutral'],
}

const COLUMNS: readonly Column<CheckedLink>[] = [
  { header: 'Link', isWrapped: true, cell: ({ url }) => <Code>{url}</Code> },
  {
    header: 'Result',
    width: '9rem',
    phone: 'aside',
    cell: ({ result }) => <StatusLabel tone={RESULTS[result][1]}>{RESULTS[result][0]}</StatusLabel>,
  },
  { header: 'Details', width: '40%', isWrapped: true, phone: 'bare', cell: (link) => <LinkDetails link={link} /> },
]

const LinkDetails = ({ link: { status, final_url: leadsTo, reason } }: { readonly link: CheckedLink }) => (
  <>
    {status !== null && <div>Status {status}</div>}
    {leadsTo !== null && (
      <div>
        Leads to <Code>{leadsTo}</Code>
      </div>
    )}
    {reason !== null && <div>{reason}</div>}
  </>
)

export function LinkCheckPanel({ id }: { readonly id: string }) {
  const check = useChange(() => api.capturedEmails.checkLinks(id))
  const { isPending, error } = check
  const data = check.data?.data
  return (
    <Stack gap="sm" align="stretch">
      <Text size="sm" maw={720}>
        Each link is requested once, by this server; the servers at the links learn its address. A link that works only
        once, such as one for a new password, is used up. Links that unsubscribe, private addresses and pages of this
        server are left out.
      </Text>
      <ActionButton
        needs="developer"
        loading={isPending}
        onClick={() => check.mutate()}
        style={{ alignSelf: 'flex-start' }}
        variant="default"
      >
        {data ? 'Check again' : 'Check the links'}
      </ActionButton>
      <FormError error={error} />
      <Text role="status" size="sm">
        {data && summarise(data.links)}
        {data?.truncated && ' The message has more links; only the first are checked.'}
      </Text>
      {data && data.links.length > 0 && (
        <DataTable label="Links" columns={COLUMNS} rows={data.links} toKey={({ url }) => url} />
      )}
    </Stack>
  )
}

function summarise(links: readonly CheckedLink[]): string {
  if (links.length === 0) return 'The message has no links to the web.'
  const bad = links.filter(({ result }) => result === 'broken' || result === 'unreachable').length
  const skipped = links.filter(({ result }) => result === 'skipped').length
  return [
    `${links.length} ${links.length === 1 ? 'link' : 'links'}:`,
    bad === 0 ? 'none is broken' : `${bad} do not work`,
    skipped > 0 ? `, ${skipped} not requested.` : '.',
  ]
    .join(' ')
    .replace(/ ([,.])/g, '$1')
}
