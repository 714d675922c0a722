/** @module The list of templates. */
import { Code, Group, Text } from '@mantine/core'
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
      <NameLink to="/templates/$id" params={{ id }}>
        <bdi>{name}</bdi>
      </NameLink>
    ),
  },
  { header: 'Alias', cell: ({ alias }) => <Code>{alias}</Code> },
  {
    header: 'Subject',
    cell: ({ subject }) => (
      <Text size="sm" lineClamp={2}>
        <bdi>{subject}</bdi>
      </Text>
    ),
  },
  { header: 'Version', width: '6rem', cell: ({ version }) => version },
  { header: 'Changed', width: '9rem', cell: ({ updated_at }) => <Time iso={updated_at} /> },
]

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
