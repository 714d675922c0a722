/** @module The first steps of a broadcast: its list and its content, which make it a draft. */
import { Group, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { TextLink } from '../parts/links.tsx'
import { Page, QueryView } from '../parts/page.tsx'
import { ChooseList } from './broadcasts/choose-list.tsx'
import { ContentForm } from './broadcasts/content-form.tsx'
import { StepList } from './broadcasts/step-list.tsx'

const route = getRouteApi('/broadcasts/new')

export default function BroadcastNewScreen() {
  const { list } = route.useSearch()
  const navigate = route.useNavigate()
  return (
    <Page title="Create a broadcast" back={{ label: 'All broadcasts', target: { to: '/broadcasts' } }}>
      <StepList current={list === undefined ? 'list' : 'content'} />
      {list === undefined ? (
        <ChooseList run={({ list_id: chosen }) => navigate({ search: { list: chosen } })} />
      ) : (
        <NewContent listId={list} />
      )}
    </Page>
  )
}

function NewContent({ listId }: { readonly listId: string }) {
  const query = useData(read.contactLists.get(listId))
  const navigate = route.useNavigate()
  return (
    <QueryView query={query}>
      {({ id, name }) => (
        <>
          <Group gap="xs">
            <Text size="sm">
              To the list <bdi>{name}</bdi>.
            </Text>
            <TextLink to="/broadcasts/new" search={{}}>
              Choose another
            </TextLink>
          </Group>
          <ContentForm
            listId={id}
            onSaved={(draft, goesOn) =>
              void navigate({
                to: '/broadcasts/drafts/$id',
                params: { id: draft.id },
                search: { step: goesOn ? 'test' : 'content' },
                replace: true,
              })
            }
          />
        </>
      )}
    </QueryView>
  )
}
