// urql against an API behind the cache: queries over POST and GET, variables, mutations, errors.
import assert from "node:assert/strict";
import { Client, fetchExchange, gql } from "@urql/core";
import { HIT, STORED, bypass, endpoint, expect, recordingFetch } from "./recorder.mjs";

const PRODUCT = gql`query Product($id: Int!) { product(id: $id) { id name } }`;
const RENAME = gql`mutation Rename($id: Int!, $name: String!) { rename(id: $id, name: $name) { id name } }`;

function client(preferGetMethod) {
  return new Client({ url: endpoint, exchanges: [fetchExchange], fetch: recordingFetch, preferGetMethod });
}

async function nameOf(client, id) {
  const result = await client.query(PRODUCT, { id }).toPromise();
  assert.ifError(result.error);
  return result.data.product.name;
}

const post = client(false);
assert.equal(await nameOf(post, 1), "product 1");
assert.equal(await nameOf(post, 1), "product 1");
assert.equal(await nameOf(post, 2), "product 2");
const [first] = expect(STORED, HIT, STORED);
assert.equal(first.method, "POST");

await post.mutation(RENAME, { id: 1, name: "jam" }).toPromise();
assert.equal(await nameOf(post, 1), "jam");
assert.equal(await nameOf(post, 2), "product 2");
expect(bypass("graphql-mutation"), STORED, HIT);

for (let n = 0; n < 2; n++) {
  const failed = await post.query(gql`{ broken }`, {}).toPromise();
  assert.match(failed.error.message, /shelf/);
}
expect("fwd=uri-miss; detail=graphql-errors", "fwd=uri-miss; detail=hit-for-miss");

const get = client("force");
assert.equal(await nameOf(get, 1), "jam");
assert.equal(await nameOf(get, 1), "jam");
const [asGet] = expect(STORED, HIT);
assert.equal(asGet.method, "GET");
