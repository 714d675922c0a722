/** @module The list of templates. */
import { Code, Group } from '@mantine/core'
import type { TemplateSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { NameLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { TEMPLATE_FILTERS } from './filters.ts'

const COLUMNS: readonly Column<TemplateSummary>[] = [
  {
    header: 'Name',
    cell: ({ id, name }) => (
      <NameLink to="/templates/$id" params={{ id }} title={name}>
        {name}
      </NameLink>
    ),
  },
  { header: 'Alias', width: '22%', phone: 'bare', cell: ({ alias }) => <Code>{alias}</Code> },
  { header: 'Subject', width: '36%', phone: 'none', cell: ({ subject }) => <bdi title={subject}>{subject}</bdi> },
  { header: 'Version', width: '5rem', isNumeric: true, phone: 'none', cell: ({ version }) => version },
  { header: 'Changed', width: '9rem', phone: 'aside', cell: ({ updated_at }) => <Time iso={updated_at} /> },
]

export default function TemplatesScreen() {
  const list = useList({ read: read.templates.list, filters: TEMPLATE_FILTERS })
  return (
    <ListScreen
      title="Templates"
      list={list}
      columns={COLUMNS}
      noun="template"
      action={
        <ActionLink needs="developer" to="/templates/new">
          Create a template
        </ActionLink>
      }
      empty={
        <EmptyState
          title="Your templates will appear here"
          text="A template has a subject and bodies with variables such as {{ user.name }}. An email names its alias and brings the values."
        >
          <Group>
            <ActionLink needs="developer" to="/templates/new" search={{ from: 'example' }}>
              Start with an example
            </ActionLink>
            <ActionLink needs="developer" variant="default" to="/templates/new">
              Start with an empty one
            </ActionLink>
          </Group>
        </EmptyState>
      }
    />
  )
}
