// node pattern.js URL: the leader election pattern by the official SDK for JavaScript.

const assert = require("node:assert");
const { Readable } = require("node:stream");
const { BlobServiceClient, StorageSharedKeyCredential } = require("@azure/storage-blob");

const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/** The error code of a refused call. */
async function refusal(call) {
  try {
    await call;
  } catch (error) {
    return `${error.statusCode} ${error.code}`;
  }
  throw new Error("it was not refused");
}

async function main(url) {
  const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
  const service = new BlobServiceClient(`${url}/${ACCOUNT}`, credential, { retryOptions: { maxTries: 1 } });
  const container = service.getContainerClient("pattern");
  const blob = container.getPageBlobClient("leader");

  // The first candidate creates them, and later ones find them.
  for (const isFirst of [true, false]) {
    assert.strictEqual((await container.createIfNotExists()).succeeded, isFirst);
    assert.strictEqual((await blob.createIfNotExists(512)).succeeded, isFirst);
  }

  const one = blob.getBlobLeaseClient();
  const other = blob.getBlobLeaseClient();
  const acquired = await one.acquireLease(15);
  assert.strictEqual(acquired.leaseId, one.leaseId);
  assert.strictEqual(await refusal(other.acquireLease(15)), "409 LeaseAlreadyPresent");
  assert.strictEqual(await refusal(other.renewLease()), "409 LeaseIdMismatchWithLeaseOperation");
  await one.renewLease();
  const properties = await blob.getProperties();
  assert.deepStrictEqual([properties.leaseState, properties.leaseStatus], ["leased", "locked"]);

  // Only the leader may write.
  assert.strictEqual(await refusal(blob.setMetadata({ epoch: "1" })), "412 LeaseIdMissing");
  const conditions = { leaseId: one.leaseId };
  await blob.setMetadata({ epoch: "1", "of_leader": "a" }, { conditions });
  assert.deepStrictEqual((await blob.getProperties()).metadata, { epoch: "1", of_leader: "a" });

  await one.releaseLease();
  assert.strictEqual(await refusal(one.renewLease()), "409 LeaseIdMismatchWithLeaseOperation");
  await other.acquireLease(-1);
  const broken = await blob.getBlobLeaseClient().breakLease(0);
  assert.strictEqual(broken.leaseTime, 0);

  const names = [];
  for await (const found of container.listBlobsFlat()) {
    names.push(`${found.name} ${found.properties.leaseState}`);
  }
  assert.deepStrictEqual(names, ["leader broken"]);

  // The SDK uploads a stream in blocks.
  const streamed = container.getBlockBlobClient("streamed");
  await streamed.uploadStream(Readable.from([Buffer.from("one "), Buffer.from("two")]), 4, 2);
  assert.strictEqual((await streamed.downloadToBuffer()).toString(), "one two");
  const parts = await service.getBlobBatchClient().deleteBlobs([streamed.url, `${streamed.url}2`], credential);
  assert.deepStrictEqual(parts.subResponses.map((part) => part.status), [202, 404]);

  // A body of any excessive size gets the documented error.
  for (const size of [2, 8, 32]) {
    const upload = streamed.upload(Buffer.alloc(size << 20), size << 20);
    assert.strictEqual(await refusal(upload), "413 RequestBodyTooLarge");
  }
  await container.delete();
  assert.strictEqual(await container.exists(), false);
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
