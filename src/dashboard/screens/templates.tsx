/** @module The list of templates. */
import { Code, Group } from '@mantine/core'
import type { TemplateSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { TextLink } from '../parts/links.tsx'
import { ActionLink, ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { TEMPLATE_FILTERS } from './filters.ts'

const COLUMNS: readonly Column<TemplateSummary>[] = [
  {
    header: 'Name',
    cell: ({ id, name }) => (
      <TextLink to={`/templates/${id}`}>
        <bdi>{name}</bdi>
      </TextLink>
    ),
  },
  { header: 'Alias', cell: ({ alias }) => <Code>{alias}</Code> },
  { header: 'Subject', cell: ({ subject }) => <bdi>{toShort(subject)}</bdi> },
  { header: 'Version', width: '6rem', cell: ({ version }) => version },
  { header: 'Changed', width: '9rem', cell: ({ updated_at }) => <Time iso={updated_at} /> },
]

const MAX_SHOWN_LENGTH = 120

/** Shortened between two characters. */
const toShort = (text: string): string =>
  text.length <= MAX_SHOWN_LENGTH ? text : `${text.slice(0, MAX_SHOWN_LENGTH).replace(/[\ud800-\udbff]$/, '')}…`

export default function TemplatesScreen() {
  const list = useList({ read: read.templates.list, filters: TEMPLATE_FILTERS })
  return (
    <ListScreen
      title="Templates"
      list={list}
      label="Templates, newest first"
      columns={COLUMNS}
      noun="template"
      action={
        <ActionLink needs="developer" to="/templates/new">
          New template
        </ActionLink>
      }
      empty={
        <EmptyState
          title="Your templates will appear here"
          text="A template has a subject and bodies with variables such as {{ user.name }}. An email names it by its alias and provides the values, so that texts change without a change of your program."
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
