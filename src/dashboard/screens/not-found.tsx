import { Text } from '@mantine/core'
import { TextLink } from '../parts/links.tsx'
import { Page } from '../parts/page.tsx'

export const NotFound = () => (
  <Page title="No such page">
    <Text>
      Nothing is at this address.{' '}
      <TextLink to="/" underline="always">
        Overview
      </TextLink>
    </Text>
  </Page>
)
