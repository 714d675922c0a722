/** @module The versions of a template: who saved them, what they would change, and restoring one. */
import { Button, Stack, Text, Title, VisuallyHidden } from '@mantine/core'
import { useParams, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import type { TeamMember, Template, TemplateVersion, TemplateVersionSummary } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useSession } from '../api/session.tsx'
import { CodeEditor } from '../parts/code-editor.tsx'
import { ConfirmButton } from '../parts/dialog.tsx'
import { NameLink } from '../parts/links.tsx'
import { EmptyState, Page, QueryView, Section } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import { type Column, column, DataTable } from '../parts/table.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Time } from '../parts/time.tsx'
import { type DiffGap, type DiffLine, diffLines, summariseDiff } from './templates/line-diff.ts'

export default function TemplateVersionsScreen() {
  const { id } = useParams({ from: '/templates/$id/versions' })
  const { version } = useSearch({ from: '/templates/$id/versions' })
  const template = useData(read.templates.get(id))
  const versions = useData(read.templates.listVersions(id))
  return (
    <Page
      title="Versions"
      back={{ label: template.data?.name ?? 'The template', target: { to: '/templates/$id', params: { id } } }}
    >
      <QueryView query={template}>
        {(current) => (
          <>
            {version !== undefined && version !== current.version && (
              <ShownVersion key={version} template={current} version={version} />
            )}
            <QueryView query={versions}>
              {(rows) =>
                rows.length < 2 ? (
                  <EmptyState
                    title="Former versions will appear here"
                    text="Each change of subject, HTML or text adds one. The newest 50 are kept."
                  />
                ) : (
                  <VersionTable rows={rows} template={current} />
                )
              }
            </QueryView>
          </>
        )}
      </QueryView>
    </Page>
  )
}

interface VersionTableProps {
  readonly rows: readonly TemplateVersionSummary[]
  readonly template: Template
}

function VersionTable({ rows, template }: VersionTableProps) {
  const members = useData(read.team.listMembers({ per_page: 100 }), { staleTime: 60_000 }).data ?? []
  const { user } = useSession()
  const columns: readonly Column<TemplateVersionSummary>[] = [
    column('Version', { width: '10rem' }, ({ version }) =>
      version === template.version ? (
        <>
          <NameLink to="/templates/$id" params={{ id: template.id }} name={`Version ${version}`} />{' '}
          <StatusLabel tone="good">Current</StatusLabel>
        </>
      ) : (
        <NameLink to="/templates/$id/versions" params={{ id: template.id }} search={{ version }}>
          Version {version}
        </NameLink>
      ),
    ),
    column('Subject', { phone: 'none' }, ({ subject }) => <bdi title={subject}>{subject}</bdi>),
    column('By', { width: '22%', phone: 'bare' }, (row) => <bdi>{toAuthor(row, user.id, members)}</bdi>),
    column('Saved', { width: '9rem', phone: 'aside' }, ({ created_at }) => <Time iso={created_at} />),
  ]
  return (
    <Section title="All versions">
      <DataTable label="Versions, newest first" columns={columns} rows={rows} toKey={({ version }) => `${version}`} />
    </Section>
  )
}

const OTHER_ACTORS: Readonly<Record<string, string>> = {
  user: 'A former member',
  api_key: 'An API key',
  operator: 'The operator',
  system: 'Tassis',
}

function toAuthor(row: TemplateVersionSummary, ownId: string, members: readonly TeamMember[]): string {
  const { actor_type, actor_id } = row
  if (actor_type === 'user' && actor_id === ownId) return 'You'
  const member = actor_type === 'user' ? members.find(({ id }) => id === actor_id) : undefined
  return member ? member.name || member.email : (OTHER_ACTORS[actor_type] ?? actor_type)
}

interface ShownVersionProps {
  readonly template: Template
  readonly version: number
}

function ShownVersion({ template, version }: ShownVersionProps) {
  const query = useData(read.templates.getVersion(template.id, String(version)), {
    // A stored version does not change.
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <Section title={`Version ${version}`} action={query.data && <Restore template={template} version={version} />}>
      <QueryView query={query}>{(shown) => <Contents template={template} shown={shown} />}</QueryView>
    </Section>
  )
}

function Contents({ template, shown }: { readonly template: Template; readonly shown: TemplateVersion }) {
  const [tab, setTab] = useState<'changes' | 'html' | 'text'>('changes')
  return (
    <Tabs
      label={`Version ${shown.version}`}
      value={tab}
      onChange={setTab}
      tabs={[
        {
          name: 'changes',
          label: 'Changes',
          panel: (
            <Stack>
              <DiffView title="Subject" before={template.subject} after={shown.subject} />
              <DiffView title="HTML" before={template.html_body ?? ''} after={shown.html_body ?? ''} />
              <DiffView title="Text" before={template.text_body ?? ''} after={shown.text_body ?? ''} />
            </Stack>
          ),
        },
        {
          name: 'html',
          label: 'HTML',
          panel: (
            <CodeEditor label={`HTML of version ${shown.version}`} language="html" value={shown.html_body ?? ''} />
          ),
        },
        {
          name: 'text',
          label: 'Text',
          panel: (
            <CodeEditor label={`Text of version ${shown.version}`} language="text" value={shown.text_body ?? ''} />
          ),
        },
      ]}
    />
  )
}

const Restore = ({ template, version }: ShownVersionProps) => (
  <ConfirmButton
    label="Restore this version"
    variant="filled"
    needs="developer"
    title={`Restore version ${version}?`}
    confirm="Restore"
    isDangerous={false}
    refreshes={['templates']}
    run={() => api.templates.restoreVersion(template.id, String(version), { if_version: template.version })}
  >
    Subject, HTML and text of version {version} become version {template.version + 1}, and are used from the next send
    on. Version {template.version} stays in the list. Name and alias do not change.
  </ConfirmButton>
)

interface DiffViewProps {
  readonly title: string
  readonly before: string
  readonly after: string
}

const STEP_ROWS = 300
/** More of a line is laid out only with a pause that is felt. */
const MAX_LINE_LENGTH = 2000

function DiffView({ title, before, after }: DiffViewProps) {
  const rows = useMemo(() => summariseDiff(diffLines(before, after)), [before, after])
  const [shownRows, setShownRows] = useState(STEP_ROWS)
  return (
    <Stack gap="xs">
      <Title order={3} size="h5">
        {title}
      </Title>
      {rows.length === 0 ? (
        <Text size="sm">No difference.</Text>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: otherwise it cannot be scrolled by keyboard
        <section className="diff" aria-label={`Changes of ${title}`} tabIndex={0}>
          {rows.slice(0, shownRows).map((row, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the rows have no other identity
            <DiffRow key={index} row={row} />
          ))}
        </section>
      )}
      {rows.length > shownRows && (
        <div>
          <Button size="xs" variant="default" onClick={() => setShownRows((count) => count + STEP_ROWS)}>
            Show more of {rows.length.toLocaleString()} lines
          </Button>
        </div>
      )}
    </Stack>
  )
}

const SIGNS = { same: '\u00a0', removed: '−', added: '+' } as const
const WORDS = { same: '', removed: 'Removed: ', added: 'Added: ' } as const

function DiffRow({ row }: { readonly row: DiffLine | DiffGap }) {
  if (row.kind === 'gap')
    return (
      <div className="diff-gap">
        {row.lines === 1 ? '1 line is the same' : `${row.lines.toLocaleString()} lines are the same`}
      </div>
    )
  const { kind, text } = row
  return (
    <div className={`diff-line diff-${kind}`}>
      <span aria-hidden="true">{SIGNS[kind]}</span>
      <VisuallyHidden>{WORDS[kind]}</VisuallyHidden>
      <span dir="auto">
        {text.length > MAX_LINE_LENGTH
          ? `${text.slice(0, MAX_LINE_LENGTH)}… (${text.length.toLocaleString()} characters)`
          : text}
      </span>
    </div>
  )
}
